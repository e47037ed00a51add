-- Sets aside, in a range of a lane, the messages of senders of whom a dead letter is unsettled: they wait behind it.
create or replace function relaybox.hold_back(known relaybox.subscription, lane_ integer, after_place bigint, bound_place bigint) returns void
language plpgsql volatile
set enable_seqscan = off
as $$
declare
    blocked text[] := array(
        select distinct d.sender from relaybox.dead_letter d
        where d.subscription_id = known.subscription_id and d.lane = lane_ and d.state in ('open', 'redriving')
    );
    run record;
begin
    if blocked = '{}' then
        return;
    end if;
    for run in
        select d.first_place, d.last_place, d.hop_id, d.first_position, d.positions
        from relaybox.delivery d
        where d.stream_id = known.stream_id and d.last_place > after_place
        order by d.last_place
    loop
        exit when run.first_place > bound_place;
        insert into relaybox.dead_letter (
            stream_id, hop_id, "position", reason, detail, subscription_id, lane, place, sender, attempts, state
        )
        select
            known.stream_id, run.hop_id, l.position, 'waits_behind', 'an earlier message of this sender is a dead letter',
            known.subscription_id, lane_, p.place, l.sender, 0,
            case when exists (
                select from relaybox.dead_letter b
                where b.subscription_id = known.subscription_id and b.lane = lane_ and b.sender = l.sender and b.state = 'open'
            ) then 'open' else 'redriving' end
        from generate_series(greatest(run.first_place, after_place + 1), least(run.last_place, bound_place)) as p (place)
        join relaybox.log l on l.hop_id = run.hop_id
            and l.position = coalesce(run.positions[p.place - run.first_place + 1], run.first_position + p.place - run.first_place)
        where l.sender = any(blocked)
            and (known.topic is null or l.topic = known.topic)
            and (known.lanes = 1 or relaybox.lane_of(known.lane_by, known.lanes, l.sender, l.key) = lane_)
        on conflict (subscription_id, place) do nothing;
    end loop;
end
$$;
