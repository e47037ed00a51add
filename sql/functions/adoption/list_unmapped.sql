-- Which rows of an application's table can't be messages: per problem how many, and the first of them.
-- Reads the whole table. Raises an error in place of an answer that a policy of the table would
-- shorten.
create or replace function relaybox_internal.list_unmapped(relation regclass, table_name text, mapping jsonb)
returns table (problem text, row_count bigint, first_rows text[])
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
        'select m.problem, count(*), '
        '(array_agg(case when length(%1$s) > 200 then left(%1$s, 200) || '' ...'' else %1$s end))[1:3] %2$s '
        'where not m.is_good group by m.problem order by count(*) desc, m.problem',
        case
            when relaybox_internal.runs_foreign_code(relation) then '''the row at ctid '' || relaybox_row.ctid'
            else 'row_to_json(relaybox_row)::text'
        end,
        relaybox_internal.adoption_rows(relation, table_name, mapping)
    );
end
$$;
