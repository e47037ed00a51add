-- Lists what is wrong with the outbox itself, in one snapshot: a sentence for each contradiction,
-- with the numbers. Returns no row if nothing is wrong. Reads indexes, the catalog and Postgres'
-- own counts of removed and changed rows, which a crash or a reset sets to 0. The removal of a
-- waiting row leaves no other trace.
create or replace function relaybox_internal.outbox_contradictions() returns setof text
language sql stable
as $$
    with head as materialized (
        select s.anchor_seq, q.last_value as last_seq,
            pg_snapshot_xmax(pg_current_snapshot()) as next_xid
        from relaybox_internal.store s cross join relaybox.outbox_seq q
    )
    select * from relaybox_internal.find_missing_seqs()
    union all
    select format(
        'the outbox has %s rows of transactions that have not begun, the first at seq %s of '
        'transaction %s; the next transaction of the cluster is %s: no hop reads them',
        f.row_count, f.first_seq, f.first_xid, h.next_xid
    )
    from head h
    cross join lateral (
        select count(*) as row_count, min(o.seq) as first_seq,
            min(o.xid::text::numeric) as first_xid
        from relaybox_internal.sent_rows o where o.xid >= h.next_xid and o.seq > h.anchor_seq
    ) f
    where f.row_count > 0
    union all
    select format(
        'the outbox is anchored at seq %s; the newest seq is %s', h.anchor_seq, h.last_seq
    )
    from head h where h.anchor_seq > h.last_seq
    union all
    select format(
        'hop %s is anchored at seq %s, the outbox at seq %s: no hop reads what lies between', o.hop,
        o.anchor_seq, h.anchor_seq
    )
    from head h join relaybox_internal.hop_out o on o.anchor_seq > h.anchor_seq
    union all
    select format(
        '%s rows of outbox segment %s were removed and %s changed, as Postgres counts (those of a '
        'transaction that was rolled back as well): nobody but retention may. Once that is cleared '
        'up: select pg_stat_reset_single_table_counters(''%s''::regclass)',
        t.n_tup_del, s.segment, t.n_tup_upd, s.segment
    )
    from (
        select o.segment from relaybox_internal.segments() o where o.log_id is null
        union all
        select 'relaybox_internal.outbox_overflow'::regclass
    ) s
    join pg_stat_all_tables t on t.relid = s.segment
    where t.n_tup_del + t.n_tup_upd > 0
$$;
