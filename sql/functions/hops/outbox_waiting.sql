-- What of an outbox waits for a hop's next batches, of each of three origins: the first seq, and how many rows. Counted by index from the
-- hop's newest snapshot to now, among what a new generation found undelivered, and in the rest of a capped pair. No row: nothing of it.
create or replace function relaybox.outbox_waiting(hop_name text) returns table (first_seq bigint, row_count bigint)
language sql stable
as $$
    select w.first_seq, w.row_count
    from relaybox.hop_out h
    left join relaybox.batch newest on newest.hop = h.hop and newest.batch = h.batch
    cross join lateral (
        -- one bucket takes every seq
        select b.first_seq, b.row_count
        from relaybox.outbox_buckets(h.lower, pg_current_snapshot(), h.topics, 4611686018427387904, h.anchor_seq) b
        union all
        select b.first_seq, b.row_count from relaybox.undelivered_buckets(h.undelivered, h.topics, 4611686018427387904) b
        union all
        select b.first_seq, b.row_count
        from relaybox.outbox_buckets_after(
            newest.lower, newest.upper, newest.topics, 4611686018427387904, newest.reads_through, newest.pair_last_seq, 4611686018427387904
        ) b
        where not newest.pair_exhausted and newest.generation = h.generation
    ) w
    where h.hop = hop_name and h.reads_log is null
$$;
