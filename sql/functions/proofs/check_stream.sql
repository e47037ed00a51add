-- Proves a stream's order from its tables and its logs, in one snapshot: how often each rule is broken, with a few places.
-- No row: every decided position is delivered, a duplicate, set aside, held or waiting, and just one of these; places are 1, 2, 3 ...;
-- and no sender's message, nor any cause of one, comes after what the order puts behind it. Of what retention has dropped nothing is asked.
create or replace function relaybox.check_stream(stream_name text)
returns table (kind text, violation_count bigint, examples text[])
language sql stable
set work_mem = '256MB'
set enable_nestloop = off
set jit = off
as $$
    with here as materialized (
        select * from relaybox.stream s where s.stream = stream_name
    ), logs as materialized (
        select l.*, i.hop, i.first_kept_position from relaybox.stream_log l join relaybox.hop_in i on i.hop_id = l.hop_id
        where l.stream_id = (select h.stream_id from here h)
    ), placed as materialized (
        select p.* from here h cross join lateral relaybox.stream_places(h.stream_id) p
    ), arrived as materialized (
        select i.hop, l.hop_id, l.position, l.message_id, l.sender, l.epoch, l.index, l.clock
        from logs i join relaybox.log l on l.hop_id = i.hop_id and l.position <= i.decided_position
        where l.hop_id = any(array(select hop_id from logs))
    ), fates as materialized (
        select f.hop_id, f.position, count(*) as fate_count, string_agg(f.fate, ', ' order by f.fate) as fates
        from (
            select p.hop_id, p.position, 'place ' || p.place as fate from placed p
            union all
            select d.hop_id, u.at, 'duplicate' from logs i join relaybox.decision d on d.hop_id = i.hop_id cross join unnest(d.duplicates) u (at)
            union all
            select d.hop_id, d.position, 'set aside' from logs i join relaybox.dead_letter d on d.hop_id = i.hop_id where d.subscription_id is null
            union all
            select h.hop_id, h.position, 'held' from logs i join relaybox.held h on h.hop_id = i.hop_id
            union all
            select a.hop_id, a.position, 'waiting'
            from logs i
            join relaybox.sender_state s on s.stream_id = i.stream_id and s.origin = i.origin and s.stalled_after is not null
            join arrived a on a.hop_id = i.hop_id and a.sender = s.sender and a.epoch = s.epoch and a.position > s.stalled_after
        ) f
        left join logs k on k.hop_id = f.hop_id
        where (f.position < k.first_kept_position) is not true
        group by f.hop_id, f.position
    ), delivered as materialized (
        select p.place, a.* from placed p join arrived a on a.hop_id = p.hop_id and a.position = p.position
    ), fenced as materialized (
        select s.sender, max(s.epoch) as epoch from relaybox.sender_state s
        where s.stream_id = (select h.stream_id from here h) and s.begun_at is not null
        group by s.sender
    ), given_up as materialized (
        select g.sender, g.epoch, range_agg(g.indexes) as indexes
        from (
            select k.sender, k.epoch, int8range(k.first_index, k.last_index, '[]') as indexes
            from relaybox.skip k where k.stream_id = (select h.stream_id from here h)
            union all
            select a.sender, a.epoch, int8range(a.index, a.index + 1)
            from arrived a join relaybox.dead_letter d on d.hop_id = a.hop_id and d.position = a.position
            where d.subscription_id is null and starts_with(d.reason, 'clock_')
        ) g
        group by g.sender, g.epoch
    ), forgotten as (
        -- which indexes these were can't be told any more
        select exists (
            select from logs i join relaybox.dead_letter d on d.hop_id = i.hop_id and d.position < i.first_kept_position
            where d.subscription_id is null and starts_with(d.reason, 'clock_')
        ) as any_given_up
    ), runs as (
        select greatest(d.first_place, h.first_kept_place) as first_place, d.last_place,
            lag(d.last_place, 1, h.first_kept_place - 1) over (order by d.last_place) as before
        from relaybox.delivery d join here h on h.stream_id = d.stream_id and d.last_place >= h.first_kept_place
        union all
        select h.last_place + 1, null, coalesce(max(d.last_place), h.first_kept_place - 1)
        from here h left join relaybox.delivery d on d.stream_id = h.stream_id and d.last_place >= h.first_kept_place
        group by h.last_place, h.first_kept_place
    ), steps as (
        select d.place, d.sender, d.epoch, n.index,
            coalesce(lag(n.index) over of_epoch, case when h.first_kept_place = 1 then 0 end) as before,
            max(d.epoch) over (partition by d.sender order by d.place) as highest
        from delivered d
        -- senders without numbers come as the log has them: their indexes are positions of a first log that may have been filled anew
        cross join lateral (select case when d.epoch = 0 then d.position else d.index end as index) n
        join here h on d.place >= h.first_kept_place and (h.delivery_order in ('fifo', 'causal') or h.delivery_order = 'total' and d.epoch = 0)
        window of_epoch as (partition by d.sender, d.epoch order by d.place)
    ), wanted as (
        select d.place, d.hop, d.position, e.sender, e.epoch, e.index
        from here h
        join delivered d on h.delivery_order = 'causal' and d.clock is not null and d.place >= h.first_kept_place
        cross join lateral relaybox.clock_entries(
            case when relaybox.clock_is_valid(d.clock, d.sender, d.epoch, d.index) then d.clock end
        ) e
        where e.sender <> d.sender
    ), broken as (
        select 'places_not_dense' as kind, r.before as at, format('place %s follows place %s', r.first_place, r.before) as example
        from runs r where r.first_place <> r.before + 1
        union all
        select 'position_lost', a.position, format('position %s of %s has no place and no reason for it', a.position, a.hop)
        from arrived a left join fates f on f.hop_id = a.hop_id and f.position = a.position where f.fate_count is null
        union all
        select 'position_decided_twice', f.position, format('position %s of %s: %s', f.position, i.hop, f.fates)
        from fates f join logs i on i.hop_id = f.hop_id where f.fate_count > 1
        union all
        select 'position_unknown', f.position, format('position %s of %s was never decided on: %s', f.position, coalesce(i.hop, 'log ' || f.hop_id), f.fates)
        from fates f
        left join arrived a on a.hop_id = f.hop_id and a.position = f.position
        left join logs i on i.hop_id = f.hop_id
        where a.position is null
        union all
        select 'index_repeated', r.place, format('place %s: index %s of %s stands at place %s already', r.place, r.index, r.sender, r.first_place)
        from (
            select d.*, min(d.place) over (partition by d.sender, d.epoch, d.index) as first_place from delivered d where d.epoch > 0
        ) r
        where r.place > r.first_place
        union all
        select 'message_id_repeated', r.place, format('place %s: position %s of %s has the id of position %s', r.place, r.position, r.hop, r.before)
        from (
            select p.place, a.*, h.message_id_window, lag(a.position) over (partition by a.hop_id, a.message_id order by a.position) as before
            from here h
            join arrived a on h.message_id_window > 0
            left join placed p on p.hop_id = a.hop_id and p.position = a.position
        ) r
        where r.place is not null and r.position - r.before <= r.message_id_window
        union all
        select 'sender_out_of_order', s.place,
            format('place %s: index %s of %s, epoch %s, follows index %s', s.place, s.index, s.sender, s.epoch, s.before)
        from steps s
        left join given_up g on g.sender = s.sender and g.epoch = s.epoch
        left join fenced f on f.sender = s.sender
        where s.index <= s.before or s.highest > s.epoch
            or s.epoch > 0 and s.index > s.before + 1 and (f.epoch > s.epoch) is not true
            and (g.indexes @> int8range(s.before + 1, s.index)) is not true and not (select f.any_given_up from forgotten f)
        union all
        select 'before_its_cause', w.place,
            format(
                'place %s comes before index %s of %s, which %s', w.place, w.index, w.sender,
                coalesce('stands at place ' || d.place, 'was not delivered')
            )
        from wanted w
        left join delivered d on d.sender = w.sender and d.epoch = w.epoch and d.index = w.index
        left join given_up g on g.sender = w.sender and g.epoch = w.epoch
        left join fenced f on f.sender = w.sender
        where d.place > w.place
            or d.place is null and (g.indexes @> w.index) is not true and (f.epoch > w.epoch) is not true and not exists (
                select from here h join relaybox.sender_state s on s.stream_id = h.stream_id
                where h.first_kept_place > 1 and s.sender = w.sender and s.epoch = w.epoch and s.watermark >= w.index
            )
    )
    select b.kind, count(*), (array_agg(b.example order by b.at))[1:5] from broken b group by b.kind
$$;
