-- Lists each entry of a row of the outbox in the ledgers of these hops, in a range of seqs (after,
-- through]: a batch (with its number), an adoption from a lost ledger, a piece of the backlog, or the
-- part that the hop's frontier has not passed. By the law of conservation (G12) each row of a hop's
-- topics is here once for that hop. What no frontier has passed is read once for all hops.
create or replace function relaybox_internal.accounted_seqs(
    hop_names text[], after_seq bigint, through_seq bigint
)
returns table (hop text, seq bigint, state text, batch bigint)
language plpgsql stable
set enable_seqscan = off
set plan_cache_mode = force_custom_plan -- only the segments of the range are looked at
as $$
declare
    heads constant relaybox_internal.hop_out[] := array(
        select h from relaybox_internal.hop_out h
        where h.hop = any(hop_names) and h.reads_log is null and h.retired_at is null
    );
    oldest constant pg_snapshot := relaybox_internal.oldest_lower(heads);
    open_before constant xid8[] := array(
        select distinct x.xid from unnest(heads) h cross join pg_snapshot_xip(h.lower) x (xid)
    );
begin
    return query
    with received as materialized (
        select n.hop, coalesce(c.through_batch, 0) as through_batch
        from unnest(hop_names) n (hop)
        left join lateral relaybox_internal.newest_confirmation(n.hop, 'received') c on true
    ), fresh as materialized ( -- what at least one frontier has not passed
        select o.seq, o.topic, o.xid
        from relaybox_internal.sent_rows o
        where o.seq > after_seq and o.seq <= through_seq
            and (o.xid >= pg_snapshot_xmax(oldest) or o.xid = any(open_before))
    )
    select r.hop, r.seq, case when r.batch <= c.through_batch then 'delivered' else 'planned' end, r.batch
    from relaybox_internal.read_seqs(hop_names, after_seq, through_seq, 9223372036854775807) r
    join received c on c.hop = r.hop
    union all
    select g.hop, o.seq, 'delivered', null
    from relaybox_internal.generation g
    cross join lateral relaybox_internal.hop_topics(g.hop) t (topics)
    cross join lateral unnest(g.adopted_seqs) a (seqs)
    join relaybox_internal.sent_rows o on o.seq >= greatest(lower(a.seqs), after_seq + 1)
        and o.seq > after_seq and o.seq <= through_seq
        and o.seq <= least(upper(a.seqs) - 1, through_seq)
        and o.topic = any(t.topics)
    where g.hop = any(hop_names) and g.adopted_seqs <> '{}'
    union all
    select p.hop, p.seq, case p.state when 'routed' then 'waiting' else p.state end, null
    from relaybox_internal.backlog_seqs(hop_names, after_seq, through_seq) p
    union all
    select h.hop, f.seq, 'waiting', null
    from unnest(heads) h
    cross join lateral (select distinct unnest(h.topics)) t (topic)
    join fresh f on f.topic = t.topic and f.seq > h.anchor_seq and not pg_visible_in_snapshot(f.xid, h.lower);
end
$$;
