-- The messages that break the law of conservation (G12) of a hop that reads the outbox, in a range
-- of seqs (after, through]: they are in none of its batches, its backlog and its future, or in two.
-- batches: those that read the message; entry_count: in how many entries it is, not 1. A hop that
-- reads a log has none.
create or replace function relaybox_internal.unaccounted_messages(
    hop_name text, after_seq bigint, through_seq bigint
)
returns table (
    seq bigint, message_id uuid, sender text, topic text, batches bigint[], entry_count bigint
)
language sql stable
as $$
    select o.seq, o.message_id, o.sender, o.topic, coalesce(a.batches, '{}'),
        coalesce(a.entry_count, 0)
    from relaybox_internal.sent_rows o
    left join (
        select p.seq, count(*) as entry_count,
            array_agg(p.batch order by p.batch) filter (where p.batch is not null) as batches
        from relaybox_internal.accounted_seqs(array[hop_name], after_seq, through_seq) p group by p.seq
    ) a on a.seq = o.seq
    where o.seq > after_seq and o.seq <= through_seq
        and o.topic = any(array(select unnest(relaybox_internal.hop_topics(hop_name))))
        and a.entry_count is distinct from 1
    order by o.seq
$$;
