-- Makes the table into which the newest detached segment of a log is copied back. No session reads
-- it before finish_attach(). A later attempt supersedes an earlier one and drops its table. No row:
-- nothing of the log is detached. Locks the row of the ledger, then the table, as finish_attach()
-- does: it waits for an attempt that is finishing.
create or replace function relaybox_internal.begin_attach(
    log_id_ integer, recorded_by text,
    out made relaybox_internal.detached_segment, out staging text
)
returns setof record
language plpgsql volatile security definer
set search_path = pg_catalog, relaybox, pg_temp
set row_security = off
as $$
begin
    perform relaybox_internal.require_writable_primary();
    perform from relaybox_internal.detached_segment d
    where d.log_id = log_id_ and d.state = 'detached' order by d.first desc limit 1 for update;
    -- a later statement than the lock: leaves out what another attempt has attached meanwhile
    update relaybox_internal.detached_segment d set attempt = d.attempt + 1, moved_by = recorded_by
    where d.log_id = log_id_ and d.state = 'detached' and d.first = (
        select max(newest.first) from relaybox_internal.detached_segment newest
        where newest.log_id = log_id_ and newest.state = 'detached'
    )
    returning d.* into made;
    if not found then
        return;
    end if;
    for staging in
        select c.relname from pg_class c
        where c.relnamespace in ('relaybox'::regnamespace, 'relaybox_internal'::regnamespace)
            and c.relkind = 'r' and starts_with(c.relname, made.segment || '_attempt_')
    loop
        execute format('drop table relaybox_internal.%I', staging);
    end loop;
    staging := format('%s_attempt_%s', made.segment, made.attempt);
    -- its check is the bounds of the segment: attaching it scans nothing
    execute format(
        'create table relaybox_internal.%I (
            like relaybox_internal.log_%s including defaults including constraints,
            constraint %I primary key (log_id, log_position),
            constraint rows_of_the_segment
                check (log_id = %s and log_position >= %s and log_position < %s)
        )',
        staging, log_id_, staging || '_pkey', log_id_, made.first, made.last + 1
    );
    perform relaybox_internal.limit_rights(
        format('relaybox_internal.%I', staging)::regclass,
        format('relaybox_internal.log_%s', log_id_)::regclass
    );
    execute format('grant select, insert on relaybox_internal.%I to relaybox_driver', staging);
    return next;
end
$$;
