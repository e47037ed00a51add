-- The sessions of this database whose login may move messages: members of the owner of the store or
-- of relaybox_driver. Any login can choose the name of its session; only a trusted one can be a
-- driver. may_end: the login of the caller may end it. Needs pg_read_all_stats to see the names of
-- other logins' sessions. Looks anew: else a transaction sees the sessions as they were when it first
-- looked.
create or replace function relaybox_internal.trusted_sessions()
returns table (pid integer, started_at timestamptz, name text, may_end boolean)
language sql volatile
as $$
    select pg_stat_clear_snapshot();
    select
        a.pid, a.backend_start, a.application_name,
        case
            when login.rolsuper then own.rolsuper
            else
                pg_has_role(own.oid, login.oid, 'usage')
                or pg_has_role(own.oid, 'pg_signal_backend', 'usage')
        end
    from pg_stat_activity a
    join pg_roles login on login.oid = a.usesysid
    join pg_roles own on own.rolname = current_user
    join pg_namespace schema on schema.nspname = 'relaybox'
    where
        a.datname = current_database()
        and (
            pg_has_role(login.oid, schema.nspowner, 'member')
            or exists (
                select from pg_roles driver
                where
                    driver.rolname = 'relaybox_driver'
                    and pg_has_role(login.oid, driver.oid, 'member')
            )
        )
$$;
