-- The rows of the outbox in the pieces of the backlog of these hops, in a range of seqs (after,
-- through], each with its hop and piece. Inlined.
create or replace function relaybox_internal.backlog_seqs(
    hop_names text[], after_seq bigint, through_seq bigint
)
returns table (hop text, seq bigint, backlog_id bigint, state text)
language sql stable parallel safe
as $$
    select p.hop, o.seq, p.backlog_id, p.state
    from relaybox_internal.backlog p
    cross join lateral unnest(p.seqs) r (seqs)
    join relaybox_internal.sent_rows o on o.seq >= greatest(lower(r.seqs), after_seq + 1)
        and o.seq > after_seq and o.seq <= through_seq -- the planner leaves out other segments
        and o.seq <= least(upper(r.seqs) - 1, through_seq)
    where p.hop = any(hop_names)
        and o.topic = any(p.topics)
        and (p.upper is null or pg_visible_in_snapshot(o.xid, p.upper))
        and not pg_visible_in_snapshot(o.xid, p.lower)
$$;
