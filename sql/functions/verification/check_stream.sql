-- Verifies a stream's order from its tables and its logs, in one snapshot. Returns how often each
-- rule is broken, with a few stream positions. No row means: every decided position is delivered, a
-- duplicate, set aside, held or waiting, and only one of these; stream positions are 1, 2, 3 ...;
-- and the order that the stream promises holds for every message and its causes. Checks nothing
-- that retention has dropped.
create or replace function relaybox_internal.check_stream(stream_name text)
returns table (kind text, violation_count bigint, examples text[])
language sql stable
set work_mem = '256MB'
set enable_nestloop = off
set jit = off
as $$
    -- of each kind only its first examples are held in memory: there may be one per message
    select v.kind, count(*), array_agg(v.example order by v.rank) filter (where v.rank <= 5)
    from (
        select u.kind, u.example, row_number() over (partition by u.kind order by u.at) as rank
        from (
            select p.kind, p.at, p.example
            from relaybox_internal.find_stream_position_gaps(stream_name) p
            union all
            select f.kind, f.at, f.example from relaybox_internal.find_wrong_fates(stream_name) f
            union all
            select m.kind, m.at, m.example
            from relaybox_internal.find_repeated_message_ids(stream_name) m
            union all
            select s.kind, s.at, s.example from relaybox_internal.find_out_of_order(stream_name) s
            union all
            select c.kind, c.at, c.example from relaybox_internal.find_before_cause(stream_name) c
        ) u
    ) v
    group by v.kind
$$;
