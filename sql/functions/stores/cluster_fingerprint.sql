-- Which history of which cluster this is. The timeline comes from the WAL file name:
-- pg_control_checkpoint() still shows the old one after a promotion. At Neon, where each branch has
-- the identifier and the timeline of its parent, it is mixed with the id of the branch. What the
-- server refuses to tell is 0 where a provider answers for the store. Raises RB001 on a standby,
-- RB003 if the server refuses to tell and no provider answers.
create or replace function relaybox_internal.cluster_fingerprint(
    out system_identifier bigint, out timeline integer, out next_xid xid8
)
language plpgsql volatile
as $$
declare
    branch text := nullif(current_setting('neon.timeline_id', true), '');
begin
    next_xid := pg_snapshot_xmax(pg_current_snapshot());
    if pg_is_in_recovery() then
        raise exception using errcode = 'RB001',
            message = 'this server is a standby; Relaybox needs the primary',
            hint = 'Point the libpq service of this store to the primary.';
    end if;
    begin
        system_identifier := (select c.system_identifier from pg_control_system() c);
    exception
        when insufficient_privilege or feature_not_supported or object_not_in_prerequisite_state
            or undefined_function
        then
            system_identifier := relaybox_internal.unknown_cluster(sqlerrm, sqlstate);
    end;
    begin
        timeline := (
            'x' || left(pg_walfile_name(pg_current_wal_insert_lsn()), 8)
        )::bit(32)::integer;
    exception
        when insufficient_privilege or feature_not_supported or object_not_in_prerequisite_state
            or undefined_function
        then
            timeline := relaybox_internal.unknown_cluster(sqlerrm, sqlstate);
    end;
    if branch is not null then
        timeline := timeline # (('x' || left(md5(branch), 8))::bit(32)::integer & 2147483647);
    end if;
end
$$;
