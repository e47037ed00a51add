-- Which rows of an application's table can't be messages: per problem how many, and the first of them,
-- each by a query of its own, since an aggregate would hold the text of every row. Reads the whole
-- table. Raises an error in place of an answer that a policy of the table would shorten.
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
        'select p.problem, p.row_count, array('
        'select case when length(r.content) > 200 then left(r.content, 200) || '' ...'' else r.content end '
        'from (select %1$s as content %2$s where not m.is_good and m.problem = p.problem limit 3) r) '
        'from (select m.problem, count(*) as row_count %2$s where not m.is_good group by m.problem) p '
        'order by p.row_count desc, p.problem',
        case
            when relaybox_internal.runs_foreign_code(relation) then '''the row at ctid '' || relaybox_row.ctid'
            else 'row_to_json(relaybox_row)::text'
        end,
        relaybox_internal.adoption_rows(relation, table_name, mapping)
    );
end
$$;
