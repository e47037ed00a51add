-- Locks the tables and views that an init is about to change, before it changes anything. Afterwards
-- the init waits for no session.
--
-- All locks are taken within half of deadlock_timeout, or none. So no session waits for an init long
-- enough to be ended as one part of a deadlock, and no session that waits behind an init waits for
-- what a long transaction holds. Between attempts others go on. Fails after lock_timeout (55P03).
--
-- Reads relaybox_init.files (see renew_functions.sql) and relaybox_init.migrations: number, name,
-- phase of each migration, and the names of relations in its text; and relaybox_init.altered_views:
-- the names of views that were changed by hand.
do $lock_relations$
declare
    -- what consumers and drivers take first, after views that applications read: who waits here
    -- holds nothing yet, and those who are past it can end
    entrances constant text[] := array['subscription', 'hop_in', 'hop_out', 'stream'];
    attempt constant interval := current_setting('deadlock_timeout')::interval / 2;
    patience constant interval := current_setting('lock_timeout')::interval;
    ends constant timestamptz := clock_timestamp() + patience;
    attempt_ends timestamptz;
    is_last boolean;
    has_record constant boolean := to_regclass('relaybox_internal.installed_object') is not null;
    has_post boolean;
    names text[];
    relations text[];
    relation text;
begin
    if to_regclass('relaybox.migration') is null then
        return;
    end if;
    select coalesce(array_agg(n.name), '{}'), coalesce(bool_or(m ->> 2 = 'post'), false) into names, has_post
    from json_array_elements(current_setting('relaybox_init.migrations')::json) m
    left join json_array_elements_text(m -> 3) n (name) on true
    where not exists (select from relaybox.migration done where done.number = (m ->> 0)::integer);
    if names <> '{}' then
        names := names || entrances;
    end if;
    for relation in
        select f ->> 1 from json_array_elements(current_setting('relaybox_init.files')::json) f where f ->> 0 = 'view'
    loop
        if not has_record then
            names := names || relation;
        elsif exists (
            select from json_array_elements(current_setting('relaybox_init.files')::json) f
            where f ->> 0 = 'view' and f ->> 1 = relation and not exists (
                select from relaybox_internal.installed_object o
                where (o.kind, o.name, o.digest) = ('view', relation, f ->> 2)
                    and case o.kind when 'view' then to_regclass(o.identity) end is not null
            )
        ) or relation in (
            select v.name
            from json_array_elements_text(current_setting('relaybox_init.altered_views')::json) v (name)
        ) then
            names := names || relation;
        end if;
    end loop;
    select array_agg(c.oid::regclass::text order by
        c.relkind <> 'v' or c.relname = 'lane_cursors', array_position(entrances, c.relname::text), c.oid::regclass::text
    ) into relations
    from pg_class c join pg_namespace n on n.oid = c.relnamespace
    where n.nspname in ('relaybox', 'relaybox_internal') and c.relkind in ('r', 'p', 'v')
        and (
            c.relname = any(names)
            or has_post and n.nspowner = c.relowner and not c.relispartition -- it may change all of them
        )
        and c.relname <> 'migration'; -- of it inits hold a row
    if relations is null then
        return;
    end if;
    loop
        is_last := clock_timestamp() > ends;
        attempt_ends := clock_timestamp() + attempt;
        begin
            foreach relation in array relations loop
                perform set_config('lock_timeout', greatest(
                    1, extract(epoch from attempt_ends - clock_timestamp()) * 1000
                )::integer::text, true);
                execute format('lock table %s in access exclusive mode', relation);
            end loop;
            exit;
        exception when lock_not_available then
            if is_last then
                raise;
            end if;
        end;
        perform pg_sleep(extract(epoch from attempt));
    end loop;
    perform set_config('lock_timeout', extract(epoch from patience)::numeric * 1000 || 'ms', true);
end
$lock_relations$;
