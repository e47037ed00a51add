-- Gives the rights of relaybox_internal.list_role_rights() that are missing, and takes back those of
-- PUBLIC. Applied whole after functions and views, whenever one of these files changed or the rights
-- in the store are other ones. It takes no right from any other role: a right that a newer version
-- takes back is revoked by its migration. What other owners have in these schemas is left alone.
do $$
declare
    repair text;
begin
    -- owners first: the rights on an object change with its owner
    for repair in
        select d.statement from relaybox_internal.list_right_defects() d
        where d.kind = 'owner' and d.is_mendable
    loop
        execute repair;
    end loop;
    for repair in
        select d.statement from relaybox_internal.list_right_defects() d
        where d.kind <> 'owner' and d.is_mendable
    loop
        begin
            execute repair;
        exception when undefined_table then
            null; -- retention has dropped the segment since it was listed
        end;
    end loop;
    -- also where PUBLIC has them: these may be revoked from PUBLIC later
    if exists (
        select from pg_database d
        where d.datname = current_database() and pg_has_role(d.datdba, 'usage')
    ) then
        for repair in
            select format(
                'grant %s on database %I to %I', w.privilege, current_database(), w.grantee
            )
            from relaybox_internal.list_role_rights() w
            where w.kind = 'database'
        loop
            execute repair;
        end loop;
    end if;
end
$$;
