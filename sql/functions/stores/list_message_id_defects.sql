-- Whether relaybox.new_message_id() is one of the two that init makes, as a row of
-- list_table_defects(): that of Postgres 18, or that of earlier ones, which stays through pg_upgrade.
-- Messages with ids that it gives twice count as repeated, and only the first of them is delivered.
-- Takes no lock.
create or replace function relaybox_internal.list_message_id_defects()
returns table (state text, defect text, statement text, is_mendable boolean)
language sql stable
set search_path = pg_catalog, pg_temp
set quote_all_identifiers = off
as $$
with made (body) as (
    values
    ('RETURN uuidv7()'),
    (
        'RETURN (encode(set_bit(set_bit(OVERLAY(uuid_send(gen_random_uuid()) '
        'PLACING SUBSTRING(int8send(((EXTRACT(epoch FROM clock_timestamp()) * (1000)::numeric))::bigint) FROM 3) '
        'FROM 1 FOR 6), (52)::bigint, 1), (53)::bigint, 1), ''hex''::text))::uuid'
    )
),

found as (
    select regexp_replace(coalesce(pg_get_function_sqlbody(p.oid), p.prosrc), e'\\s+', ' ', 'g') as body,
        p.prokind = 'f' and p.provolatile = 'v' and not p.prosecdef and not p.proretset
        and p.proconfig is null and p.prorettype = 'uuid'::regtype as is_plain
    from pg_proc p
    where p.oid = to_regprocedure('relaybox.new_message_id()')
)

select 'changed', 'function relaybox.new_message_id() is not as init made it: ' || left(f.body, 200),
    'create or replace function relaybox.new_message_id() returns uuid language sql volatile '
    || case
        when current_setting('server_version_num')::integer >= 180000 then (select min(m.body) from made m where m.body ~ 'uuidv7')
        else (select min(m.body) from made m where m.body !~ 'uuidv7')
    end,
    true
from found f
where not f.is_plain or f.body not in (select m.body from made m)
$$;
