-- Sets aside, in a range of a lane, the messages of senders of whom an earlier message is an unsettled dead letter: they wait behind it.
-- Messages before that letter are not touched, nor is the letter. Caller: holds the lane.
create or replace function relaybox.hold_back(c relaybox.cursor, known relaybox.subscription, after_place bigint, bound_place bigint)
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
    select array_agg(b.sender), array_agg(b.first_unsettled), array_agg(b.first_open) into senders, first_unsettled, first_open
    from (
        select d.sender, min(d.place) as first_unsettled, min(d.place) filter (where d.state = 'open') as first_open
        from relaybox.dead_letter d
        where d.subscription_id = known.subscription_id and d.lane = c.lane and d.state in ('open', 'redriving')
        group by d.sender
    ) b
    where b.first_unsettled < bound_place;
    if senders is null then
        return;
    end if;
    for delivery_run in select r.* from relaybox.list_delivery_runs(known.stream_id, after_place, bound_place) r loop
        insert into relaybox.dead_letter as w (
            stream_id, hop_id, "position", reason, detail, subscription_id, lane, place, sender, attempts, state, acknowledged_before
        )
        select
            known.stream_id, delivery_run.hop_id, m.position, 'waits_behind', 'an earlier message of this sender is a dead letter',
            known.subscription_id, c.lane, m.place, m.sender, 0,
            case when first_open[s.number] < m.place then 'open' else 'redriving' end, m.place <= c.replay_place
        from relaybox.read_delivery_run(
            delivery_run.hop_id, delivery_run.first_place, delivery_run.first_position, delivery_run.last_position, delivery_run.positions
        ) m
        cross join lateral array_position(senders, m.sender) as s (number)
        where s.number is not null and m.place > first_unsettled[s.number]
            and relaybox.takes_message(known.topic, known.lanes, known.lane_by, c.lane, m.topic, m.sender, m.key)
        on conflict (subscription_id, place) do update
        set state = excluded.state, reason = excluded.reason, detail = excluded.detail, acknowledged_before = true,
            settled_at = null, settled_by = null, settled_reason = null
        where w.state = 'redriven' and not w.given_ahead; -- done before, and read again behind a letter that is newer
    end loop;
end
$$;
