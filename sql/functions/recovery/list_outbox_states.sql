-- The rows of a hop's topics in the outbox, up to the anchor: routed, unrouted or retired, and
-- whether the destination has each. Inlined in rebuild_backlog().
create or replace function relaybox_internal.list_outbox_states(
    head relaybox_internal.hop_out, topics_ text[], common_batch bigint, anchor bigint,
    adopted int8multirange
)
returns table (
    seq bigint, topic text, state text, retired_by text, retired_reason text, delivered boolean
)
language sql stable
as $$
    select
        o.seq, o.topic,
        case
            when r.seq is not null then 'retired'
            when o.topic = any(head.topics) then 'routed'
            else 'unrouted'
        end,
        r.retired_by, r.retired_reason, b.seq is not null
    from relaybox_internal.sent_rows o
    left join (
        select b.seq, min(p.retired_by) as retired_by, min(p.retired_reason) as retired_reason
        from relaybox_internal.backlog_seqs(array[head.hop], 0, anchor) b
        join relaybox_internal.backlog p on p.hop = head.hop and p.backlog_id = b.backlog_id
        where b.state = 'retired'
        group by b.seq
    ) r on r.seq = o.seq
    left join (
        select b.seq from relaybox_internal.read_seqs(array[head.hop], 0, anchor, common_batch) b
        union
        select o.seq from relaybox_internal.generation g
        cross join lateral unnest(g.adopted_seqs) a (seqs)
        join relaybox_internal.sent_rows o on o.seq >= lower(a.seqs) and o.seq < upper(a.seqs)
        where g.hop = head.hop
        union
        select o.seq from unnest(adopted) a (seqs)
        join relaybox_internal.sent_rows o on o.seq >= lower(a.seqs) and o.seq < upper(a.seqs)
    ) b on b.seq = o.seq
    where o.seq <= anchor and o.topic = any(topics_)
$$;
