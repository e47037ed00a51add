-- The sessions and prepared transactions that hold a lock on a table of this database, as text. The
-- session of the caller is left out. Null: there is none.
create or replace function relaybox_internal.sessions_with_lock(relation_ regclass) returns text
language sql stable
as $$
    select string_agg(distinct format(
        '%s (pid %s, %s since %s)',
        coalesce(nullif(a.application_name, ''), a.usename, 'a prepared transaction'),
        coalesce(l.pid::text, 'none'), coalesce(a.state, 'prepared'),
        coalesce(to_char(a.xact_start at time zone 'UTC', 'HH24:MI:SS'), 'unknown')
    ), ', ')
    from pg_locks l
    left join pg_stat_activity a on a.pid = l.pid
    where
        l.relation = relation_ and l.granted and l.pid is distinct from pg_backend_pid()
        and l.database = (select d.oid from pg_database d where d.datname = current_database())
$$;
