-- Makes what was copied back a segment of its log again, if its rows are those that were detached.
-- outcome: attached; superseded (by another attempt). Stopped consumers have detach_after_seconds
-- from now on. Raises RB012 if the rows differ. Locks the row of the ledger against other attempts
-- (release_detached() may change it meanwhile), then the copied table; then, as
-- drop_oldest_segment() does, the log, its stream and its hop (docs/protocol.md).
create or replace function relaybox_internal.finish_attach(
    log_id_ integer, first_ bigint, attempt_ integer, recorded_by text
)
returns text
language plpgsql volatile security definer
set search_path = pg_catalog, relaybox, pg_temp
set row_security = off
as $$
declare
    wanted relaybox_internal.detached_segment;
    staging text;
begin
    perform relaybox_internal.require_writable_primary();
    perform set_config('synchronous_commit', 'local', true);
    select * into wanted from relaybox_internal.detached_segment d
    where d.log_id = log_id_ and d.first = first_ and d.attempt = attempt_ and d.state = 'detached'
    for key share;
    staging := format('%s_attempt_%s', wanted.segment, attempt_);
    if to_regclass('relaybox_internal.' || quote_ident(staging)) is null then
        return 'superseded';
    end if;
    begin
        -- no session writes there from here on
        execute format('lock table relaybox_internal.%I in access exclusive mode', staging);
    exception when undefined_table then
        return 'superseded'; -- the same attempt in another session has attached it meanwhile
    end;
    perform relaybox_internal.require_detached_rows(
        wanted, format('relaybox_internal.%I', staging)::regclass
    );
    execute format(
        'lock table only relaybox_internal.log_%s in share update exclusive mode', log_id_
    );
    perform relaybox_internal.lock_stream_and_hop(log_id_);
    update relaybox_internal.detached_segment d
    set state = 'attached', moved_at = clock_timestamp(), moved_by = recorded_by
    where d.log_id = log_id_ and d.first = first_ and d.attempt = attempt_ and d.state = 'detached'
        and d.last + 1 = (
            select i.first_kept_position from relaybox_internal.hop_in i where i.log_id = log_id_
        );
    if not found then
        return 'superseded';
    end if;
    perform relaybox_internal.attach_segment(wanted, staging);
    perform relaybox_internal.lower_first_kept(log_id_, wanted.first);
    return 'attached';
end
$$;
