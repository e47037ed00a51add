-- The rows that this cluster wrote itself into an outbox that was copied from another one, if the
-- first of them has a seq below a copied row: the sequence did not come with the rows, and gave
-- what rolled back transactions had left. By seq and by transaction number such a row looks like one
-- that was read long ago. The xmin of a row of this cluster is its transaction, or (after a savepoint)
-- a subtransaction, which has a higher number; both are from after the copy, whose number is the xmin
-- of relaybox_internal.numbering. A copied row has such numbers by chance at most; then its slice has
-- as many rows as planned, and it is not listed. is_certain: false if a slice has both kinds. Empty
-- as soon as a hop was reanchored after the copy. Reads the whole outbox.
create or replace function relaybox_internal.late_rows()
returns table (seq bigint, xid xid8, is_certain boolean)
language sql stable
as $$
    with this_cluster as materialized (
        -- numbers with the epoch that the system column xmin has not
        select n.next, n.next - (n.next - m.xmin::text::numeric + 4294967296) % 4294967296 as copied_in
        from relaybox_internal.numbering m
        cross join (select pg_snapshot_xmax(pg_current_snapshot())::text::numeric as next) n
    ),
    written as materialized (
        select o.seq, o.xid, o.topic, (
            o.xmin::text::numeric = o.xid::text::numeric % 4294967296
            or o.xid::text::numeric >= c.copied_in and o.xid::text::numeric
                < c.next - (c.next - o.xmin::text::numeric + 4294967296) % 4294967296
        ) as is_own
        from relaybox_internal.sent_rows o
        cross join this_cluster c
        where relaybox_internal.is_reloaded()
    ),
    own as materialized (
        select w.seq, w.xid, w.topic from written w where w.is_own
    ),
    -- slices whose snapshots take in rows of this cluster
    mixed as (
        select array_agg(w.seq) filter (where w.is_own) as own_seqs,
            count(*) - s.row_count as surplus
        from relaybox_internal.batch b
        cross join lateral relaybox_internal.batch_slices(b.slices) s
        join written w on w.seq between s.first_read and s.last_read
            and w.topic = any(b.topics)
            and pg_visible_in_snapshot(w.xid, b.upper)
            and not pg_visible_in_snapshot(w.xid, b.lower)
        where b.lower is not null
            and exists (
                select from own where own.seq between s.first_read and s.last_read
            )
        group by b.hop, b.batch, s.slice, s.row_count
    )
    select own.seq, own.xid, not exists (
        select from mixed m
        where own.seq = any(m.own_seqs) and m.surplus <> cardinality(m.own_seqs)
    )
    from own
    where (select min(o.seq) from own o)
        < (select max(w.seq) from written w where not w.is_own)
        and not exists (
            select from mixed m where own.seq = any(m.own_seqs) and m.surplus = 0
        )
$$;
