-- Sets aside the messages of a range of a lane that wait behind an unsettled dead letter: an
-- earlier message of their sender. Changes neither that dead letter nor messages before it. Caller
-- holds the lane.
create or replace function relaybox_internal.dead_letter_followers(
    cursor_ relaybox_internal.cursor, subscription_ relaybox_internal.subscription,
    after_stream_position bigint, bound_stream_position bigint
)
returns void
language plpgsql volatile
set enable_seqscan = off
set plan_cache_mode = force_generic_plan -- planning over a log's segments takes longer than reading
as $$
declare
    senders text[];
    first_unsettled bigint[];
    first_open bigint[];
    delivery_run record;
begin
    select array_agg(b.sender), array_agg(b.first_unsettled), array_agg(b.first_open)
    into senders, first_unsettled, first_open
    from (
        select d.sender, min(d.stream_position) as first_unsettled,
            min(d.stream_position) filter (where d.state = 'open') as first_open
        from relaybox_internal.dead_letter d
        where d.subscription_id = subscription_.subscription_id and d.lane = cursor_.lane
            and d.state in ('open', 'redriving')
        group by d.sender
    ) b
    where b.first_unsettled < bound_stream_position;
    if senders is null then
        return;
    end if;
    for delivery_run in
        select r.* from relaybox_internal.list_delivery_runs(
            subscription_.stream_id, after_stream_position, bound_stream_position
        ) r
    loop
        insert into relaybox_internal.dead_letter as w (
            stream_id, log_id, log_position, reason, detail, subscription_id, lane, stream_position,
            sender, attempts, state, acknowledged_before
        )
        select
            subscription_.stream_id, delivery_run.log_id, m.log_position, 'waits_behind',
            'an earlier message of this sender is a dead letter',
            subscription_.subscription_id, cursor_.lane, m.stream_position, m.sender, 0,
            case when first_open[s.number] < m.stream_position then 'open' else 'redriving' end,
            m.stream_position <= cursor_.replay_stream_position
        from relaybox_internal.read_delivery_run(
            delivery_run.log_id, delivery_run.first_stream_position, delivery_run.first_position,
            delivery_run.last_position, delivery_run.log_positions
        ) m
        cross join lateral array_position(senders, m.sender) as s (number)
        where s.number is not null and m.stream_position > first_unsettled[s.number]
            and relaybox_internal.takes_message(
                subscription_.topic, subscription_.lanes, subscription_.lane_by, cursor_.lane,
                m.topic, m.sender, m.key
            )
        on conflict (subscription_id, stream_position) do update
        set state = excluded.state, reason = excluded.reason, detail = excluded.detail,
            acknowledged_before = true, resolved_at = null, resolved_by = null,
            resolved_reason = null
        -- it was processed before, and is read again behind a newer dead letter
        where w.state = 'redriven' and not w.given_ahead;
    end loop;
end
$$;
