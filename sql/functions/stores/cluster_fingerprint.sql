-- Which history of which cluster this is. The timeline comes from the WAL file name:
-- pg_control_checkpoint() still shows the old one after a promotion.
create or replace function relaybox_internal.cluster_fingerprint(
    out system_identifier bigint, out timeline integer, out next_xid xid8
)
language sql volatile
as $$
    select
        c.system_identifier,
        ('x' || left(pg_walfile_name(pg_current_wal_insert_lsn()), 8))::bit(32)::integer,
        pg_snapshot_xmax(pg_current_snapshot())
    from pg_control_system() c
$$;
