-- The first rows of an application's table as they would travel, in the order of a backlog. Null as
-- order: as the table has them.
create or replace function relaybox_internal.preview_messages(
    relation regclass, table_name text, mapping jsonb, order_columns text[], most integer
)
returns table (
    message_id uuid, topic text, sender text, key text, headers jsonb, payload text,
    payload_bytes bytea, problem text
)
language plpgsql stable
set search_path = pg_catalog, pg_temp
-- the text of values is that of the trigger (adoption_trigger), whatever the session says
set timezone = 'UTC'
set datestyle = iso
set intervalstyle = postgres
set extra_float_digits = 1
set bytea_output = hex
set row_security = off
as $$
begin
    return query execute format(
        'select m.message_id, m.topic, m.sender, m.key, m.headers, m.payload, m.payload_bytes, m.problem %s%s limit %s',
        relaybox_internal.adoption_rows(relation, table_name, mapping),
        (
            select ' order by ' || string_agg(format('relaybox_row.%I', o.name), ', ' order by o.place)
            from unnest(order_columns) with ordinality o (name, place)
        ),
        most
    );
end
$$;
