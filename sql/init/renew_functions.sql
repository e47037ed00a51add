-- Makes the functions and views of a store as their files say, and drops those of ours that no file
-- makes any more. `create or replace` keeps the rights on an object and all that depends on it. What
-- it cannot replace is dropped and made again, with what of ours depends on it. Nothing is dropped
-- with cascade.
--
-- Reads settings of the transaction: relaybox_init.files has kind, name and digest of each file, in
-- the order in which they are applied; relaybox_init.KIND.NAME has the text of a file. Writes
-- relaybox_init.rights: the rights on dropped objects (restore_rights.sql). Raises RB008 if objects
-- of others depend on one that must be dropped; it names all of them.
do $renew_functions$
declare
    dependents constant text := $dependents$
        with target as (
            select case $1 when 'view' then 'pg_class' else 'pg_proc' end::regclass::oid as catalogue,
                case $1 when 'view' then to_regclass($2)::oid else to_regprocedure($2)::oid end as object
        ), wanted as (
            select t.catalogue, t.object from target t
            union all
            -- the row type of a view, and the array of it
            select 'pg_type'::regclass, unnest(array[y.oid, y.typarray])
            from target t join pg_type y on y.typrelid = t.object
            where t.catalogue = 'pg_class'::regclass
        ), found as (
            -- a view depends by its rule
            select distinct
                case when w.rulename = '_RETURN' then 'pg_class'::regclass::oid else d.classid end as catalogue,
                case when w.rulename = '_RETURN' then w.ev_class else d.objid end as object,
                case when w.rulename = '_RETURN' then 0 else d.objsubid end as part
            from wanted n
            join pg_depend d on d.refclassid = n.catalogue and d.refobjid = n.object and d.deptype in ('n', 'a')
            left join pg_rewrite w on d.classid = 'pg_rewrite'::regclass and w.oid = d.objid
        )
        select o.kind, o.name, o.identity,
            pg_describe_object(f.catalogue, f.object, f.part) as description,
            coalesce(c.relowner, p.proowner)::regrole::text as owner
        from found f
        left join pg_class c on f.catalogue = 'pg_class'::regclass and c.oid = f.object
        left join pg_proc p on f.catalogue = 'pg_proc'::regclass and p.oid = f.object
        left join relaybox_internal.installed_object o
            on o.kind = case when c.relkind = 'v' then 'view' when p.oid is not null then 'function' end
            and o.identity = (pg_identify_object(f.catalogue, f.object, 0)).identity
        where (f.catalogue, f.object) not in (select n.catalogue, n.object from wanted n)
        order by description
    $dependents$;
    versions constant text := $versions$ -- identity, and what differs after each `create or replace`
        select coalesce(jsonb_object_agg(v.identity, v.version), '{}') from (
            select (pg_identify_object('pg_class'::regclass, c.oid, 0)).identity, w.oid || ' ' || w.ctid as version
            from pg_class c join pg_rewrite w on w.ev_class = c.oid and w.rulename = '_RETURN'
            where $1 = 'view' and c.relkind = 'v' and c.relname = $2
                and c.relnamespace in ('relaybox'::regnamespace, 'relaybox_internal'::regnamespace)
            union all
            select (pg_identify_object('pg_proc'::regclass, p.oid, 0)).identity, p.oid || ' ' || p.ctid
            from pg_proc p
            where $1 = 'function' and p.proname = $2
                and p.pronamespace in ('relaybox'::regnamespace, 'relaybox_internal'::regnamespace)
        ) v
    $versions$;
    rights_of constant text := $rights$
        select coalesce(jsonb_agg(to_jsonb(r)), '[]') from (
            select $1 as kind, $2 as name, a.privilege_type as privilege, null::name as "column",
                a.grantee::regrole::text as grantee, a.is_grantable as with_grant_option
            from pg_proc p, aclexplode(p.proacl) a
            where $1 = 'function' and p.oid = to_regprocedure($3) and a.grantee not in (0, p.proowner)
            union all
            select $1, $2, a.privilege_type, null, a.grantee::regrole::text, a.is_grantable
            from pg_class c, aclexplode(c.relacl) a
            where $1 = 'view' and c.oid = to_regclass($3) and a.grantee not in (0, c.relowner)
            union all
            select $1, $2, a.privilege_type, t.attname, a.grantee::regrole::text, a.is_grantable
            from pg_attribute t, aclexplode(t.attacl) a
            where $1 = 'view' and t.attrelid = to_regclass($3) and t.attnum > 0 and a.grantee <> 0
        ) r
    $rights$;
    file record;
    one record;
    dependent record;
    key text;
    made text;
    before jsonb;
    after jsonb;
    found jsonb;
    digests jsonb := '{}'; -- by kind.name
    installed jsonb; -- kind.name to the identity of the object
    due text[] := '{}'; -- files to be applied, in this order
    superseded jsonb := '[]'; -- objects that no file makes any more
    drops jsonb := '[]'; -- objects to be dropped next, and why
    stack jsonb;
    seen text[];
    foreign_objects text[];
    dropped text[];
    rights jsonb := '[]';
    obstacles text := ''; -- what must be dropped, and what of others depends on it
    may_replace boolean;
begin
    perform set_config('check_function_bodies', 'off', true); -- functions refer to each other
    -- a store of before the record: what has the name of a file is ours
    if not exists (select from relaybox_internal.installed_object) then
        for file in select f ->> 0 as kind, f ->> 1 as name from json_array_elements(current_setting('relaybox_init.files')::json) f loop
            execute versions into found using file.kind, file.name;
            insert into relaybox_internal.installed_object (identity, kind, name, digest)
            select v.identity, file.kind, file.name, 'unknown' from jsonb_object_keys(found) v (identity);
        end loop;
    end if;
    -- a session with quote_all_identifiers = on recorded quoted names: an object would supersede itself
    update relaybox_internal.installed_object o set identity = written.identity
    from (
        select r.identity as recorded, (pg_identify_object(
            case r.kind when 'view' then 'pg_class'::regclass else 'pg_proc'::regclass end,
            case r.kind when 'view' then to_regclass(r.identity)::oid else to_regprocedure(r.identity)::oid end,
            0
        )).identity
        from relaybox_internal.installed_object r
    ) written
    where written.recorded = o.identity and written.identity <> o.identity;
    select coalesce(jsonb_object_agg(o.kind || '.' || o.name, o.identity), '{}') into installed
    from relaybox_internal.installed_object o
    where case o.kind when 'view' then to_regclass(o.identity)::oid else to_regprocedure(o.identity)::oid end is not null;
    for file in
        select f ->> 0 as kind, f ->> 1 as name, f ->> 2 as digest
        from json_array_elements(current_setting('relaybox_init.files')::json) with ordinality e (f, n) order by n
    loop
        key := file.kind || '.' || file.name;
        digests := digests || jsonb_build_object(key, file.digest);
        if not exists (
            select from relaybox_internal.installed_object o
            where o.identity = installed ->> key and o.digest = file.digest
        ) then
            due := due || key;
        end if;
    end loop;
    select coalesce(jsonb_agg(jsonb_build_array(i.key, i.value)), '[]') into superseded
    from jsonb_each_text(installed) i where not digests ? i.key;

    loop
        if jsonb_array_length(drops) > 0 then
            select drops -> 0 ->> 0 as key, drops -> 0 ->> 1 as identity, drops -> 0 ->> 2 as reason into one;
            drops := drops - 0;
            -- all that depends on the object, before the first of it is dropped
            stack := jsonb_build_array(jsonb_build_array(split_part(one.key, '.', 1), one.identity));
            seen := array[one.identity];
            foreign_objects := '{}';
            while jsonb_array_length(stack) > 0 loop
                made := stack -> -1 ->> 1;
                for dependent in execute dependents using stack -> -1 ->> 0, made loop
                    if dependent.identity is null then
                        made := dependent.description || coalesce(format(' (owner %s)', dependent.owner), '');
                        foreign_objects := foreign_objects || case when made <> all(foreign_objects) then made end;
                    elsif dependent.identity <> all(seen) then
                        seen := seen || dependent.identity;
                        stack := jsonb_build_array(jsonb_build_array(dependent.kind, dependent.identity)) || stack;
                    end if;
                end loop;
                stack := stack - -1;
            end loop;
            foreign_objects := array_remove(foreign_objects, null);
            if foreign_objects <> '{}' then
                obstacles := obstacles || format(
                    ' It must drop %s %s, %s. On it depend: %s.',
                    split_part(one.key, '.', 1), one.identity, one.reason, array_to_string(foreign_objects, '; ')
                );
                continue;
            end if;
            dropped := '{}';
            stack := jsonb_build_array(jsonb_build_array(one.key, one.identity));
            while jsonb_array_length(stack) > 0 loop
                key := stack -> -1 ->> 0;
                made := stack -> -1 ->> 1;
                execute dependents into dependent using split_part(key, '.', 1), made; -- the first one
                if dependent.identity is not null then
                    stack := stack || jsonb_build_array(
                        jsonb_build_array(dependent.kind || '.' || dependent.name, dependent.identity)
                    );
                    continue;
                end if;
                stack := stack - -1;
                execute rights_of into found using split_part(key, '.', 1), split_part(key, '.', 2), made;
                rights := rights || found;
                execute format('drop %s %s', split_part(key, '.', 1), made);
                delete from relaybox_internal.installed_object o where o.identity = made;
                dropped := key || dropped;
                if installed ->> key = made then
                    installed := installed - key;
                end if;
                -- it may have been waiting to be dropped itself
                select coalesce(jsonb_agg(w), '[]') into drops
                from jsonb_array_elements(drops) w where w ->> 1 <> made;
                select coalesce(jsonb_agg(w), '[]') into superseded
                from jsonb_array_elements(superseded) w where w ->> 1 <> made;
            end loop;
            if one.reason like 'whose %' then
                due := one.key || due;
            end if;
            foreach key in array dropped loop
                if digests ? key and not installed ? key and key <> all(due) then
                    due := due || key;
                end if;
            end loop;
        elsif due <> '{}' then
            key := due[1];
            due := due[2:];
            execute versions into before using split_part(key, '.', 1), split_part(key, '.', 2);
            may_replace := true;
            begin
                execute current_setting('relaybox_init.' || key);
            exception
                when invalid_function_definition or invalid_table_definition then
                    if not installed ? key then
                        raise;
                    end if;
                    may_replace := false; -- other parameters, another result, other columns
                when others then
                    if obstacles = '' then -- else: what could not be dropped is the reason
                        raise;
                    end if;
                    due := '{}';
                    superseded := '[]';
                    continue;
            end;
            if not may_replace then
                drops := jsonb_build_array(jsonb_build_array(key, installed ->> key, format(
                    'whose %s changed', case when key like 'view.%' then 'columns' else 'parameters or result' end
                )));
                continue;
            end if;
            execute versions into after using split_part(key, '.', 1), split_part(key, '.', 2);
            select v.identity into strict made
            from jsonb_each_text(after) v (identity, version)
            where v.version is distinct from before ->> v.identity;
            if installed ->> key <> made then
                superseded := superseded || jsonb_build_array(jsonb_build_array(key, installed ->> key));
            end if;
            installed := installed || jsonb_build_object(key, made);
            insert into relaybox_internal.installed_object as o (identity, kind, name, digest)
            values (made, split_part(key, '.', 1), split_part(key, '.', 2), digests ->> key)
            on conflict (identity) do update set digest = excluded.digest, installed_at = clock_timestamp();
        elsif jsonb_array_length(superseded) > 0 then
            select jsonb_agg(s || '["which is not part of this version"]') into drops
            from jsonb_array_elements(superseded) s;
            superseded := '[]';
        elsif obstacles <> '' then
            raise exception using errcode = 'RB008',
                message = 'init changed nothing.' || obstacles,
                hint = 'Drop or change these objects, run: relaybox init. Then make them again.';
        else
            exit;
        end if;
    end loop;
    perform set_config('relaybox_init.rights', rights::text, true);
end
$renew_functions$;
