-- Grants again what renew_functions.sql took with the objects that it dropped, where an object of
-- that name was made in this transaction. Reads relaybox_init.rights.
do $restore_rights$
declare
    lost record;
begin
    for lost in
        select r.privilege, r."column", r.grantee, r.with_grant_option, o.kind, o.identity
        from jsonb_to_recordset(
            coalesce(nullif(current_setting('relaybox_init.rights', true), ''), '[]')::jsonb
        ) r (
            kind text, name text, privilege text, "column" name, grantee text,
            with_grant_option boolean
        )
        join relaybox_internal.installed_object o on (o.kind, o.name) = (r.kind, r.name)
        where r."column" is null or exists (
            select from pg_attribute a
            where a.attrelid = to_regclass(o.identity) and a.attname = r."column"
                and not a.attisdropped
        )
    loop
        execute format(
            'grant %s %s on %s %s to %s %s', lost.privilege, '(' || quote_ident(lost."column") || ')',
            case lost.kind when 'function' then 'function' end, lost.identity, lost.grantee,
            case when lost.with_grant_option then 'with grant option' end
        );
    end loop;
end
$restore_rights$;
