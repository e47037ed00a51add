-- Counts what outbox_buckets() returns. The rows are those of transactions from lower's xmax on, and
-- those of transactions that lower saw open and that have ended since. So one long transaction does
-- not make every later read begin at its start. sealed_seq: of sealed_through(lower_); below
-- first_kept are rows of a sequence that was set back, in the overflow. `+ 0` makes the planner use
-- the narrow index on xid, not the key. Inlined.
create or replace function relaybox_internal.unsealed_buckets(
    lower_ pg_snapshot, upper_ pg_snapshot, topics_ text[], bucket_seqs bigint, after_seq bigint,
    sealed_seq bigint, first_kept bigint
)
returns table (first_seq bigint, last_seq bigint, row_count bigint)
language sql stable parallel safe
as $$
    select min(p.seq), max(p.seq), count(*)
    from (
        select o.seq from relaybox_internal.sent_rows o
        where o.xid >= pg_snapshot_xmax(lower_)
            and o.xid < pg_snapshot_xmax(upper_)
            and (o.xid < pg_snapshot_xmin(upper_) or pg_visible_in_snapshot(o.xid, upper_))
            and o.topic = any(topics_)
            and o.seq + 0 > after_seq
            and (o.seq > sealed_seq or o.seq < first_kept)
        union all
        select o.seq from relaybox_internal.sent_rows o
        where o.xid = any(
            array(select x from pg_snapshot_xip(lower_) x where pg_visible_in_snapshot(x, upper_))
        )
            and o.topic = any(topics_)
            and o.seq + 0 > after_seq
            and (o.seq > sealed_seq or o.seq < first_kept)
    ) p
    group by p.seq / bucket_seqs
    order by 1
$$;
