-- The same pair, from a seq on, at most max_rows rows: how a capped batch is followed by the next
-- without counting the whole backlog again. Walks the primary key and stops.
create or replace function relaybox.outbox_buckets_after(
    lower_ pg_snapshot, upper_ pg_snapshot, topics_ text[], bucket_seqs bigint, after_seq bigint, pair_last_seq bigint, max_rows bigint
)
returns table (first_seq bigint, last_seq bigint, row_count bigint)
language sql stable parallel safe
as $$
    select min(p.seq), max(p.seq), count(*)
    from (
        select o.seq
        from relaybox.outbox o
        where o.seq > after_seq
            and o.seq <= pair_last_seq
            and o.topic = any(topics_)
            and (
                (o.xid >= pg_snapshot_xmax(lower_) and o.xid < pg_snapshot_xmax(upper_)
                    and (o.xid < pg_snapshot_xmin(upper_) or pg_visible_in_snapshot(o.xid, upper_)))
                or o.xid = any(array(select x from pg_snapshot_xip(lower_) x where pg_visible_in_snapshot(x, upper_)))
            )
        order by o.seq
        limit max_rows
    ) p
    group by p.seq / bucket_seqs
    order by 1
$$;
