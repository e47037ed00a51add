-- What differs between the rights in this store and those that init gives, and the statement that
-- repairs each: a right of a role of Relaybox that is missing, a right of PUBLIC, an object that
-- belongs to another role than the tables of the store. Rights of other roles are no defect.
-- kind: owner, public, missing; database: a missing right that the owner of the database gives;
-- everywhere: a right that PUBLIC gets on each table that the owner makes, in all schemas.
-- identity: of a function or view, as installed_object has it. is_mendable: the login may do it.
-- Takes no lock. grants.sql runs the statements, owners first: rights go with the owner.
create or replace function relaybox_internal.list_right_defects()
returns table (kind text, identity text, defect text, statement text, is_mendable boolean)
language sql stable
set search_path = pg_catalog, pg_temp
as $$
with store as (
    select m.relowner as owner, o.rolname as owner_name
    from pg_class m
    join pg_roles o on o.oid = m.relowner
    where m.oid = to_regclass('relaybox.migration')
),

wanted as materialized (
    select w.kind, w.object, w.column_name, w.privilege, w.grantee, r.oid as role
    from relaybox_internal.list_role_rights() w
    join pg_roles r on r.rolname = w.grantee
),

routines as (
    select p.oid, p.proowner, p.proacl, p.oid::regprocedure::text as name
    from relaybox_internal.installed_object o
    join pg_proc p on p.oid = to_regprocedure(o.identity)
    where o.kind = 'function'
    union all
    select p.oid, p.proowner, p.proacl, p.oid::regprocedure::text
    from pg_proc p
    where p.oid = to_regprocedure('relaybox.new_message_id()')
),

relations as (
    select c.oid, c.relowner, c.relacl, c.oid::regclass::text as name,
        case c.relkind when 'S' then 'sequence' when 'v' then 'view' else 'table' end as type
    from pg_class c
    join pg_namespace n on n.oid = c.relnamespace
    where n.nspname in ('relaybox', 'relaybox_internal')
        and c.relkind in ('r', 'p', 'v', 'm', 'f', 'S')
),

-- what is there. column_key: the column, or empty. A default is of a schema and of the role that
-- makes tables in it
given (kind, object, column_key, privilege, grantee, grantor) as materialized (
    select 'relation', c.oid, ''::name, a.privilege_type, a.grantee, a.grantor
    from relations c
    cross join aclexplode(c.relacl) a
    union all
    select 'relation', c.oid, t.attname, a.privilege_type, a.grantee, a.grantor
    from relations c
    join pg_attribute t on t.attrelid = c.oid and t.attacl is not null and not t.attisdropped
    cross join aclexplode(t.attacl) a
    union all
    select 'function', p.oid, '', a.privilege_type, a.grantee, a.grantor
    from routines p
    cross join aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a
    union all
    select 'schema', n.oid, '', a.privilege_type, a.grantee, a.grantor
    from pg_namespace n
    cross join aclexplode(n.nspacl) a
    where n.nspname in ('relaybox', 'relaybox_internal')
    union all
    select 'default', n.oid, '', a.privilege_type, a.grantee, a.grantor
    from store s
    join pg_default_acl d on d.defaclrole = s.owner and d.defaclobjtype = 'r'
    join pg_namespace n on n.oid = d.defaclnamespace
    cross join aclexplode(d.defaclacl) a
    where n.nspname in ('relaybox', 'relaybox_internal')
),

named as (
    select 'relation' as kind, c.oid, c.type || ' ' || c.name as name, c.name as identity,
        -- a view is granted as a table
        case c.type when 'sequence' then 'sequence ' else 'table ' end || c.name as target,
        c.relowner as owner
    from relations c
    union all
    select 'function', p.oid, 'function ' || p.name,
        (pg_identify_object('pg_proc'::regclass, p.oid, 0)).identity, 'function ' || p.name,
        p.proowner
    from routines p
    union all
    select 'schema', n.oid, 'schema ' || n.nspname, n.nspname, 'schema ' || n.nspname, n.nspowner
    from pg_namespace n
    where n.nspname in ('relaybox', 'relaybox_internal')
    union all
    select 'default', n.oid, 'new tables in schema ' || n.nspname, n.nspname, 'tables', s.owner
    from pg_namespace n
    cross join store s
    where n.nspname in ('relaybox', 'relaybox_internal')
    union all
    select 'database', d.oid, 'database ' || quote_ident(d.datname), d.datname,
        'database ' || quote_ident(d.datname), d.datdba
    from pg_database d
    where d.datname = current_database()
),

ours as (
    select w.kind, w.object from wanted w where w.kind in ('relation', 'function')
    union
    select 'function', p.oid from routines p
)

select 'owner', n.identity,
    format('%s belongs to %s, not to %s', n.name, n.owner::regrole, s.owner::regrole),
    format(
        'alter %s owner to %s',
        case n.kind when 'function' then n.target else n.name end, s.owner::regrole
    ),
    pg_has_role(n.owner, 'usage') and pg_has_role(s.owner, 'member')
from ours o
join named n on n.kind = o.kind and n.oid = o.object
join store s on s.owner <> n.owner
-- the sequence of an identity column goes with its table
where n.name !~ '^sequence ' or n.identity = 'relaybox.outbox_seq'
union all
select case w.kind when 'database' then 'database' else 'missing' end, n.identity,
    format(
        '%s lacks %s on %s', w.grantee,
        w.privilege || coalesce(' (' || quote_ident(w.column_name) || ')', ''), n.name
    ),
    case w.kind
        when 'default' then format(
            'alter default privileges for role %I in schema %s ', s.owner_name, n.identity
        )
        else ''
    end
    || format(
        'grant %s%s on %s to %I',
        lower(w.privilege), coalesce(' (' || quote_ident(w.column_name) || ')', ''), n.target,
        w.grantee
    ),
    pg_has_role(n.owner, 'usage')
from wanted w
join named n on n.kind = w.kind and n.oid = w.object
cross join store s
where
    case w.kind
        when 'database' then not has_database_privilege(w.role, w.object, w.privilege)
        -- of a column: for it, or for the whole table
        else (w.kind, w.object, '', w.privilege, w.role) not in (
            select g.kind, g.object, g.column_key, g.privilege, g.grantee from given g
        )
        and (w.kind, w.object, coalesce(w.column_name, ''), w.privilege, w.role) not in (
            select g.kind, g.object, g.column_key, g.privilege, g.grantee from given g
        )
    end
union all
select 'public', n.identity,
    format(
        'PUBLIC has %s on %s',
        g.privilege || coalesce(' (' || quote_ident(nullif(g.column_key, '')) || ')', ''), n.name
    ),
    case
        when g.kind = 'default' then format(
            'alter default privileges for role %I in schema %s revoke %s on tables from public',
            s.owner_name, n.identity, lower(g.privilege)
        )
        -- who has it with the grant option gave it: the owner can only take back this option
        else format(
            'revoke %s%s%s on %s from %s',
            case when g.grantor <> n.owner then 'grant option for ' else '' end,
            lower(g.privilege), coalesce(' (' || quote_ident(nullif(g.column_key, '')) || ')', ''),
            n.target,
            case
                when g.grantor <> n.owner then g.grantor::regrole::text || ' cascade'
                else 'public'
            end
        )
    end,
    pg_has_role(n.owner, 'usage')
from given g
join named n on n.kind = g.kind and n.oid = g.object
join store s on s.owner = n.owner or g.kind = 'schema'
where g.grantee = 0
union all
-- of all schemas, also of those that are not ours: no init takes it. Tables of Relaybox don't keep
-- it (limit_rights())
select 'everywhere', '',
    format('PUBLIC has %s on new tables of %s in every schema', a.privilege_type, s.owner_name),
    format(
        'alter default privileges for role %I revoke %s on tables from public', s.owner_name,
        lower(a.privilege_type)
    ),
    false
from store s
join pg_default_acl d
    on d.defaclrole = s.owner and d.defaclnamespace = 0 and d.defaclobjtype = 'r'
cross join aclexplode(d.defaclacl) a
where a.grantee = 0
order by 1 desc, 3
$$;
