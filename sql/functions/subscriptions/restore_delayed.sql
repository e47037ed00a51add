-- Has messages that a subscription had passed in a store that was lost given when they are due: it would
-- not read them again, since its cursor is beyond them. Locks their lanes. Raises RB031.
create or replace function relaybox_internal.restore_delayed(
    subscription text, stream_positions bigint[]
)
returns void
language plpgsql volatile
as $$
declare
    subscription_ relaybox_internal.subscription
    := relaybox_internal.subscription_named(restore_delayed.subscription);
    changed integer[];
begin
    perform from relaybox_internal.lane l
    where l.subscription_id = subscription_.subscription_id order by l.lane for update;
    with passed as (
        insert into relaybox_internal.dead_letter (
            stream_id, log_id, log_position, reason, detail, subscription_id, lane,
            stream_position, sender, attempts, state, due_at
        )
        select
            subscription_.stream_id, at.log_id, at.log_position, 'delayed',
            format('not due until %s', due.due_at), subscription_.subscription_id,
            relaybox_internal.lane_of(
                subscription_.lane_by, subscription_.lanes, m.sender, m.key
            ),
            p.stream_position, m.sender, 0, 'delayed', due.due_at
        from unnest(restore_delayed.stream_positions) p (stream_position)
        cross join lateral relaybox_internal.log_position_at(
            subscription_.stream_id, p.stream_position
        ) at
        join relaybox_internal.log m on m.log_id = at.log_id and m.log_position = at.log_position
        cross join lateral (
            select coalesce(relaybox_internal.due_at(m.headers), clock_timestamp()) as due_at
        ) due
        on conflict do nothing
        returning lane
    )
    select array_agg(distinct p.lane order by p.lane) into changed from passed p;
    perform relaybox_internal.update_dead_letter_lanes(subscription_, changed);
end
$$;
