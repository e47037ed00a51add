-- The open second cursor of a subscription that has a name; null: no subscription has it. Raises
-- RB036 if the name belongs to another subscription.
create or replace function relaybox_internal.find_second_cursor(
    subscription_ relaybox_internal.subscription, cursor_name text
)
returns relaybox_internal.subscription
language plpgsql stable
as $$
declare
    second relaybox_internal.subscription;
begin
    select * into second from relaybox_internal.subscription s
    where s.subscription = cursor_name and s.ended_at is null;
    if found and second.replay_of is distinct from subscription_.subscription_id then
        raise exception using errcode = 'RB036',
            message = format(
                'subscription %s exists, and is no second cursor of %s',
                cursor_name, subscription_.subscription
            ),
            hint = 'Give the replay a name that is free.';
    end if;
    return second;
end
$$;
