-- The last stream position that any lane of a subscription has acknowledged. Locks nothing. Raises
-- RB031 if the subscription ended just now.
create or replace function relaybox_internal.furthest_lane(
    subscription_ relaybox_internal.subscription
)
returns bigint
language plpgsql volatile
as $$
declare
    done_through bigint;
begin
    select max(l.done_stream_position) into done_through
    from relaybox_internal.lane_cursors l
    where l.subscription_id = subscription_.subscription_id;
    if done_through is null then
        perform relaybox_internal.subscription_named(
            subscription_.subscription, is_operating => true
        );
    end if;
    return done_through;
end
$$;
