-- pre: adds columns, and takes back rights that nobody used
-- Init records what Postgres made of each of its functions and views, so that a change by hand is seen.

alter table relaybox_internal.installed_object add column definition text;
alter table relaybox_internal.installed_object add column made_on integer;
comment on column relaybox_internal.installed_object.definition is
'Digest of the object as Postgres had it when init had made it. Null: made before this column was '
'added.';
comment on column relaybox_internal.installed_object.made_on is
'The major version of Postgres then: each writes a view in its own way.';

-- An init while a segment was attached gave viewers the table that it was copied into, payloads too,
-- and drivers an insert that they don't need; both remained on the segment.
do $$
declare
    revoking text;
begin
    for revoking in
        select case
            when c.relname ~ '_attempt_[0-9]+$' then format('revoke all on %s from relaybox_viewer', c.oid::regclass)
            else format('revoke all on %s from relaybox_viewer; revoke insert on %1$s from relaybox_driver', c.oid::regclass)
        end
        from pg_class c
        where c.relnamespace = 'relaybox_internal'::regnamespace and c.relkind = 'r' and (c.relispartition or c.relname ~ '^log_[0-9]+_s[0-9]+_attempt_[0-9]+$')
            and c.relowner = (select m.relowner from pg_class m where m.oid = 'relaybox.migration'::regclass)
            and exists (
                select from aclexplode(c.relacl) a join pg_roles r on r.oid = a.grantee
                where (r.rolname, a.privilege_type) in (('relaybox_viewer', 'SELECT'), ('relaybox_driver', 'INSERT'))
            )
    loop
        execute revoking;
    end loop;
end
$$;
