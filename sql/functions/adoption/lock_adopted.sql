-- Keeps writers out of a table and its partitions, after those that are there have ended; `ending`:
-- and readers, since triggers are dropped. Before it: other adopts and unadopts of the store, so that
-- two of them can't wait for each other. Until the transaction ends. Raises 55P03 after lock_timeout.
create or replace function relaybox_internal.lock_adopted(relation regclass, ending boolean) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    full_name text;
begin
    lock table relaybox_internal.adopted_table in share row exclusive mode;
    select format('%I.%I', n.nspname, c.relname) into full_name
    from pg_class c join pg_namespace n on n.oid = c.relnamespace where c.oid = relation;
    if full_name is null then
        raise exception using errcode = 'RB044',
            message = format('table %s was dropped meanwhile', relation), hint = 'Run the command again.';
    end if;
    execute format(
        'lock table %s in %s mode', full_name,
        case when ending then 'access exclusive' else 'share row exclusive' end
    );
end
$$;
