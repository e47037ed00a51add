-- Returns the default of relaybox.outbox.xid as Postgres writes it; null: it has none.
create or replace function relaybox_internal.xid_default() returns text
language sql stable
as $$
    select pg_get_expr(d.adbin, d.adrelid)
    from pg_attribute a
    join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
    where a.attrelid = 'relaybox.outbox'::regclass and a.attname = 'xid'
$$;
