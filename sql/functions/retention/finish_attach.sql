-- Makes what was copied back a segment of its log again, if it is row by row what was detached. outcome: attached; superseded: another
-- attempt did it, or is at it. The consumers that stopped have detach_after_seconds from now on.
-- Locks the row of the ledger against other attempts (release_detached() may change it meanwhile), then the copied table; then the log,
-- its stream and its hop, as drop_oldest_segment() does (docs/protocol.md). Raises RB012 if the rows are not those that were detached.
create or replace function relaybox_internal.finish_attach(log_id_ integer, first_ bigint, attempt_ integer, recorded_by text) returns text
language plpgsql volatile
as $$
declare
    wanted relaybox_internal.detached_segment;
    staging text;
    copied record;
begin
    perform relaybox_internal.require_writable_primary();
    perform set_config('synchronous_commit', 'local', true);
    select * into wanted from relaybox_internal.detached_segment d
    where d.log_id = log_id_ and d.first = first_ and d.attempt = attempt_ and d.state = 'detached' for key share;
    staging := format('%s_attempt_%s', wanted.segment, attempt_);
    if to_regclass('relaybox_internal.' || quote_ident(staging)) is null then
        return 'superseded';
    end if;
    begin
        -- nobody writes there from here on
        execute format('lock table relaybox_internal.%I in access exclusive mode', staging);
    exception when undefined_table then
        return 'superseded'; -- the same attempt, run twice: the other run has attached it meanwhile
    end;
    select * into copied from relaybox_internal.log_digest(format('relaybox_internal.%I', staging)::regclass, wanted.first, wanted.last);
    if (copied.row_count, copied.hash_sum) <> (wanted.row_count, wanted.hash_sum) then
        raise exception using errcode = 'RB012',
            message = format(
                'log of %s: %s has %s rows with hash sum %s, detached were %s rows with hash sum %s',
                (select i.hop from relaybox_internal.hop_in i where i.log_id = log_id_), wanted.directory, copied.row_count, copied.hash_sum,
                wanted.row_count, wanted.hash_sum
            ),
            hint = 'Its files were changed or removed. Nothing was attached. Bring the files back from a backup, then attach again.';
    end if;
    execute format('lock table only relaybox_internal.log_%s in share update exclusive mode', log_id_);
    perform from relaybox_internal.stream s where s.stream_id = (select l.stream_id from relaybox_internal.stream_log l where l.log_id = log_id_) for update;
    perform from relaybox_internal.hop_in i where i.log_id = log_id_ for update;
    update relaybox_internal.detached_segment d set state = 'attached', moved_at = clock_timestamp(), moved_by = recorded_by
    where d.log_id = log_id_ and d.first = first_ and d.attempt = attempt_ and d.state = 'detached'
        and d.last + 1 = (select i.first_kept_position from relaybox_internal.hop_in i where i.log_id = log_id_);
    if not found then
        return 'superseded';
    end if;
    execute format('alter table relaybox_internal.%I rename to %I', staging, wanted.segment);
    execute format('alter index relaybox_internal.%I rename to %I', staging || '_pkey', wanted.segment || '_pkey');
    execute format(
        'alter table relaybox_internal.log_%s attach partition relaybox_internal.%I for values from (%s) to (%s)', log_id_, wanted.segment, wanted.first,
        wanted.last + 1
    );
    execute format('alter table relaybox_internal.%I drop constraint rows_of_the_segment', wanted.segment);
    update relaybox_internal.hop_in i set first_kept_position = greatest(1, wanted.first) where i.log_id = log_id_;
    update relaybox_internal.stream s set first_kept_stream_position = 1 + greatest(s.dropped_stream_position, (
        select max(relaybox_internal.last_stream_position_through(s.stream_id, d.log_id, d.last))
        from (
            select n.log_id, max(n.last) as last
            from relaybox_internal.detached_segment n join relaybox_internal.stream_log l on l.log_id = n.log_id
            where l.stream_id = s.stream_id and n.state = 'detached' group by n.log_id
        ) d
    ))
    where s.stream_id = (select l.stream_id from relaybox_internal.stream_log l where l.log_id = log_id_);
    return 'attached';
end
$$;
