-- The first row of the outbox in a range of seqs (after, through] that no hop has moved and nobody has given up: its topic has no hop, or was
-- taken from all of them before its time came; null: there is none. Reads the range: only asked of segments that nobody else needs.
create or replace function relaybox_internal.unmoved_seq(after_seq bigint, through_seq bigint) returns bigint
language sql stable
set enable_seqscan = on
as $$
    select min(o.seq)
    from relaybox.outbox o
    where o.seq > after_seq and o.seq <= through_seq and not exists (
        select
        from relaybox_internal.hop_out h
        cross join lateral relaybox_internal.accounted_seqs(h.hop, after_seq, through_seq) a
        where h.reads_log is null and a.state in ('delivered', 'planned', 'retired') and a.seq = o.seq
    )
$$;
