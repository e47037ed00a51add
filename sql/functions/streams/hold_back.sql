-- Sets aside, in a range of a lane, the messages of senders of whom an earlier message is an unsettled dead letter: they wait behind it.
-- Messages before that letter are not touched, nor is the letter. Caller: holds the lane.
create or replace function relaybox.hold_back(c relaybox.cursor, known relaybox.subscription, after_place bigint, bound_place bigint)
returns void
language plpgsql volatile
set enable_seqscan = off
as $$
declare
    blocked text[];
    first_letters bigint[];
    first_open bigint[];
    run record;
begin
    select array_agg(b.sender), array_agg(b.first_letter), array_agg(b.first_open) into blocked, first_letters, first_open
    from (
        select d.sender, min(d.place) as first_letter, min(d.place) filter (where d.state = 'open') as first_open
        from relaybox.dead_letter d
        where d.subscription_id = known.subscription_id and d.lane = c.lane and d.state in ('open', 'redriving')
        group by d.sender
    ) b
    where b.first_letter < bound_place;
    if blocked is null then
        return;
    end if;
    for run in
        select d.first_place, d.last_place, d.hop_id, d.first_position, d.positions
        from relaybox.delivery d
        where d.stream_id = known.stream_id and d.last_place > after_place
        order by d.last_place
    loop
        exit when run.first_place > bound_place;
        insert into relaybox.dead_letter as w (
            stream_id, hop_id, "position", reason, detail, subscription_id, lane, place, sender, attempts, state, acknowledged_before
        )
        select
            known.stream_id, run.hop_id, l.position, 'waits_behind', 'an earlier message of this sender is a dead letter',
            known.subscription_id, c.lane, p.place, l.sender, 0,
            case when first_open[b.n] < p.place then 'open' else 'redriving' end, p.place <= c.replay_place
        from generate_series(greatest(run.first_place, after_place + 1), least(run.last_place, bound_place)) as p (place)
        join relaybox.log l on l.hop_id = run.hop_id
            and l.position = coalesce(run.positions[p.place - run.first_place + 1], run.first_position + p.place - run.first_place)
        cross join lateral array_position(blocked, l.sender) as b (n)
        where b.n is not null and p.place > first_letters[b.n]
            and (known.topic is null or l.topic = known.topic)
            and (known.lanes = 1 or relaybox.lane_of(known.lane_by, known.lanes, l.sender, l.key) = c.lane)
        on conflict (subscription_id, place) do update
        set state = excluded.state, reason = excluded.reason, detail = excluded.detail, acknowledged_before = true,
            settled_at = null, settled_by = null, settled_reason = null
        where w.state = 'redriven' and not w.given_ahead; -- done before, and read again behind a letter that is newer
    end loop;
end
$$;
