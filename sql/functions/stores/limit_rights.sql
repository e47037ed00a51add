-- Takes from a new table each right that nobody has on its parent: those that default privileges of
-- the owner gave it, also those of all schemas. A role that may not read the parent, PUBLIC above
-- all, may not read its parts either. Caller: the transaction that made the table, so that nobody
-- ever sees the table with these rights.
create or replace function relaybox_internal.limit_rights(made regclass, parent regclass) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    statement text;
begin
    for statement in
        select format(
            'revoke %s on table %s from %s', a.privilege_type, made,
            case a.grantee when 0 then 'public' else a.grantee::regrole::text end
        )
        from pg_class c
        cross join aclexplode(c.relacl) a
        where c.oid = made and a.grantee <> c.relowner
            and (a.privilege_type, a.grantee) not in (
                select g.privilege_type, g.grantee
                from pg_class p
                cross join aclexplode(p.relacl) g
                where p.oid = parent
            )
    loop
        execute statement;
    end loop;
end
$$;
