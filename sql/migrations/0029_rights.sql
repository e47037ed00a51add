-- pre: adds only
-- A store whose database holds nothing else is closed to logins without a grant, once: a right that is given back later stays.
-- Where something else lives in the database, or another role owns it, `relaybox init` says which rights are open, and what ends them.

do $$
begin
    if exists (select from pg_database d where d.datname = current_database() and d.datdba = quote_ident(current_user)::regrole)
        and not exists (
            select from pg_class c
            join pg_namespace n on n.oid = c.relnamespace
            where n.nspname not in ('relaybox', 'pg_catalog', 'information_schema') and n.nspname !~ '^pg_(toast|temp)'
        )
    then
        execute format('revoke connect, temporary on database %I from public', current_database());
    end if;
end
$$;
