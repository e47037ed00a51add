-- Ends the backends of older attempts at one slice, so that a frozen one can't hold the rows that a newer one writes.
-- Session names: relaybox <hop> b<batch> s<slice> a<attempt>; the hop's first 30 characters, so that nothing is cut at 63 bytes.
-- A newer attempt is never ended by an older one.
create or replace function relaybox_internal.end_older_attempts(hop_name text, batch_ bigint, slice_ integer, attempt_ bigint) returns integer
language sql volatile
as $$
    select count(pg_terminate_backend(a.pid))::integer
    from pg_stat_activity a
    where a.datname = current_database()
        and a.pid <> pg_backend_pid()
        and starts_with(a.application_name, format('relaybox %s b%s s%s a', left(hop_name, 30), batch_, slice_))
        and substring(a.application_name from ' a([0-9]+)$')::bigint <= attempt_
$$;
