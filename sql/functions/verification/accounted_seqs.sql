-- Lists each entry of a row of the outbox in a hop's ledger, in a range of seqs (after, through]: a
-- batch (with its number), an adoption from a lost ledger, a piece of the backlog, or the part that
-- the hop's frontier has not passed. By the law of conservation (G12) each row of the hop's topics
-- is here once.
create or replace function relaybox_internal.accounted_seqs(
    hop_name text, after_seq bigint, through_seq bigint
)
returns table (seq bigint, state text, batch bigint)
language plpgsql stable
set enable_seqscan = off
set plan_cache_mode = force_custom_plan -- only the segments of the range are looked at
as $$
begin
    return query
    select
        r.seq,
        case
            when r.batch <= coalesce((
                select c.through_batch
                from relaybox_internal.newest_confirmation(hop_name, 'received') c
            ), 0) then 'delivered'
            else 'planned'
        end,
        r.batch
    from relaybox_internal.read_seqs(hop_name, after_seq, through_seq, 9223372036854775807) r
    union all
    select o.seq, 'delivered', null
    from relaybox_internal.generation g
    cross join lateral unnest(g.adopted_seqs) a (seqs)
    join relaybox_internal.sent_rows o on o.seq >= greatest(lower(a.seqs), after_seq + 1)
        and o.seq > after_seq and o.seq <= through_seq
        and o.seq <= least(upper(a.seqs) - 1, through_seq)
    where g.hop = hop_name
        and o.topic = any(array(select unnest(relaybox_internal.hop_topics(hop_name))))
    union all
    select p.seq, case p.state when 'routed' then 'waiting' else p.state end, null
    from relaybox_internal.backlog_seqs(hop_name, after_seq, through_seq) p
    union all
    select o.seq, 'waiting', null
    from relaybox_internal.hop_out h
    join relaybox_internal.sent_rows o on o.seq > h.anchor_seq
        and o.seq > after_seq and o.seq <= through_seq
    where h.hop = hop_name and h.retired_at is null and o.topic = any(h.topics)
        and not pg_visible_in_snapshot(o.xid, h.lower);
end
$$;
