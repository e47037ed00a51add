-- Compares a stream's decisions, the state of its senders and its cursors with its logs, in one
-- snapshot. Returns how often each rule of relaybox.verification.stream_verification is broken,
-- with a few examples. Checks nothing that retention has dropped.
create or replace function relaybox_internal.check_decisions(stream_name text)
returns table (kind text, violation_count bigint, examples text[])
language sql stable
set work_mem = '256MB'
set jit = off
as $$
    -- of each kind only its first examples are held in memory: there may be one per message
    select v.kind, count(*), array_agg(v.example order by v.rank) filter (where v.rank <= 5)
    from (
        select u.kind, u.example, row_number() over (partition by u.kind order by u.at) as rank
        from (
            select d.kind, d.at, d.example from relaybox_internal.find_wrong_decisions(stream_name) d
            union all
            select p.kind, p.at, p.example from relaybox_internal.find_wrong_progress(stream_name) p
            union all
            select s.kind, s.at, s.example
            from relaybox_internal.find_wrong_sender_states(stream_name) s
            union all
            select k.kind, k.at, k.example from relaybox_internal.find_dropped_but_kept(stream_name) k
            union all
            select c.kind, c.at, c.example from relaybox_internal.find_wrong_cursors(stream_name) c
            union all
            select n.kind, n.at, n.example
            from relaybox_internal.find_wrong_subscriptions(stream_name) n
        ) u
    ) v
    group by v.kind
$$;
