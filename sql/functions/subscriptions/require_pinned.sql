-- Raises RB043 if the open subscription of a name is not the one that was pinned when its replay was
-- counted or its dead letters were shown: that one has ended since, and the name may have begun anew.
-- pinned_id null: nothing was pinned. Locks the subscription FOR SHARE, so that it does not end before
-- the caller's transaction does.
create or replace function relaybox_internal.require_pinned(
    name text, pinned_id integer, pinned_at timestamptz
)
returns void
language plpgsql volatile
as $$
declare
    subscription_ relaybox_internal.subscription;
begin
    if pinned_id is null then
        return;
    end if;
    select * into subscription_ from relaybox_internal.subscription s
    where s.subscription = name and s.ended_at is null
    for share;
    if (subscription_.subscription_id, subscription_.subscribed_at)
        is not distinct from (pinned_id, pinned_at) then
        return;
    end if;
    raise exception using errcode = 'RB043',
        message = format(
            'subscription %s is not the one that was approved: that one is number %s, made at %s, %s',
            left(name, 70), pinned_id, pinned_at,
            coalesce(
                format(
                    'and the name is that of number %s now, made at %s',
                    subscription_.subscription_id, subscription_.subscribed_at
                ),
                'and no subscription has the name now'
            )
        ),
        hint = 'Nothing was changed. Trigger a new run: it counts and asks again.';
end
$$;
