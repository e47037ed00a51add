-- What of the outbox waits for a hop's next batches: the first seq and the number of rows, of its
-- next pair of snapshots and of each routed piece of its backlog. The pair is counted by index,
-- from the hop's newest snapshot to now. No row: nothing waits.
create or replace function relaybox_internal.outbox_waiting(hop_name text)
returns table (first_seq bigint, row_count bigint)
language sql stable
as $$
    select w.first_seq, w.row_count
    from relaybox_internal.hop_out h
    cross join lateral (
        -- one bucket takes every seq
        select b.first_seq, b.row_count
        from relaybox_internal.outbox_buckets(
            h.lower, pg_current_snapshot(), h.topics, 4611686018427387904, h.anchor_seq
        ) b
        union all
        select b.first_seq, b.row_count
        from relaybox_internal.backlog p
        cross join lateral relaybox_internal.count_backlog_piece(
            p.lower, p.upper, p.topics, p.seqs
        ) b
        where p.hop = h.hop and p.state = 'routed'
    ) w
    where h.hop = hop_name and h.reads_log is null
$$;
