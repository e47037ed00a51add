-- The rows of the outbox that the batches of these hops read, in a range of seqs (after, through], each
-- with its hop and batch. Found through the slices of the ledger and the rows themselves, along the primary key.
-- A row that two batches of a hop read is here twice. Inlined.
create or replace function relaybox_internal.read_seqs(
    hop_names text[], after_seq bigint, through_seq bigint, through_batch bigint
)
returns table (hop text, seq bigint, batch bigint)
language sql stable parallel safe
as $$
    select b.hop, o.seq, b.batch
    from relaybox_internal.batch b
    cross join lateral relaybox_internal.batch_slices(b.slices) s
    join relaybox_internal.sent_rows o on o.seq >= greatest(s.first_read, after_seq + 1)
        and o.seq > after_seq and o.seq <= through_seq -- the planner leaves out other segments
        and o.seq <= least(s.last_read, through_seq)
    where b.hop = any(hop_names)
        and b.batch <= through_batch
        and b.lower is not null
        and b.reads_through > after_seq
        and s.last_read > after_seq
        and s.first_read <= through_seq
        and o.topic = any(b.topics)
        and pg_visible_in_snapshot(o.xid, b.upper)
        and not pg_visible_in_snapshot(o.xid, b.lower)
$$;
