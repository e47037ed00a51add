-- Makes the functions of an adopted table as its record says. message_of_row_N(row) depends on the
-- columns that the map names, so that Postgres refuses to drop or retype them; message_of_json_N() is
-- the same of a row as JSON, of which only these columns are read. message_of_whole_N(row, jsonb) is made
-- where the payload is the whole row: a trigger gives it as JSON, since it can't read virtual columns as
-- a part of the row. The trigger of the table calls
-- send_rows_N(), those of partitions send_part_rows_N(). Both run as the owner of the outbox, since who
-- inserts a row need have no right on Relaybox. No text names the table: it may be renamed. Functions of
-- rows of another table, whose adoption this one took over, and of a former map are dropped. Caller:
-- holds the record's row.
create or replace function relaybox_internal.make_adoption_functions(adoption_id_ integer, relation regclass)
returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    adopted relaybox_internal.adopted_table;
    full_name text;
    result constant text := 'table (message_id pg_catalog.uuid, topic pg_catalog.text, sender pg_catalog.text, '
        'key pg_catalog.text, headers pg_catalog.jsonb, payload pg_catalog.text, payload_bytes pg_catalog.bytea, '
        'is_good pg_catalog.bool, problem pg_catalog.text)';
    made record;
begin
    select a.* into strict adopted from relaybox_internal.adopted_table a where a.adoption_id = adoption_id_;
    select format('%I.%I', n.nspname, c.relname) into strict full_name
    from pg_class c join pg_namespace n on n.oid = c.relnamespace where c.oid = relation;
    for made in
        select f.name, f.parameter, f.rest, f.told
        from (values
            (
                1, 'message_of_row', full_name,
                format(
                    'returns %s language sql stable begin atomic %s; end', result,
                    relaybox_internal.adoption_query(
                        relation, adopted.table_name, adopted.mapping,
                        format(
                            'pg_catalog.to_jsonb(relaybox_row) operator(pg_catalog.-) '
                            'relaybox_internal.virtual_columns(%L::pg_catalog.regclass)', full_name
                        )
                    )
                ),
                'Relaybox sends the rows of %s, and reads these columns of them. Before a mapped column is dropped or '
                'retyped: docs/adopt.md, "Change the table".'
            ),
            (
                2, 'message_of_whole', full_name || ', relaybox_whole pg_catalog.jsonb',
                format(
                    'returns %s language sql stable begin atomic %s; end', result,
                    relaybox_internal.adoption_query(relation, adopted.table_name, adopted.mapping, 'relaybox_whole')
                ),
                'The same as message_of_row of %s, with the row as JSON beside it, which is the payload. Made by: relaybox adopt'
            ),
            (
                3, 'message_of_json', 'pg_catalog.json',
                format(
                    'returns %s language sql stable begin atomic '
                    'select m.* from relaybox_internal.message_of_row_%2$s('
                    'json_populate_record(null::%3$s, relaybox_internal.mapped_json(%2$s, relaybox_row))) m; end',
                    result, adoption_id_, full_name
                ),
                'The same as message_of_row of %s, of a row as JSON. Made by: relaybox adopt'
            ),
            (
                4, 'send_rows', '',
                relaybox_internal.adoption_trigger(
                    adopted, false, relaybox_internal.runs_foreign_code(relation)
                ),
                'Sends the rows that a statement has inserted into %s. Made by: relaybox adopt'
            ),
            (
                5, 'send_part_rows', '',
                relaybox_internal.adoption_trigger(
                    adopted, true, relaybox_internal.runs_foreign_code(relation)
                ),
                'Sends the rows that a statement has inserted into a partition of %s. Made by: relaybox adopt'
            )
        ) f (place, name, parameter, rest, told)
        where f.name <> 'message_of_whole' or adopted.mapping -> 'payload' ? 'row'
        order by f.place
    loop
        execute format(
            'create or replace function relaybox_internal.%s_%s(%s) %s', made.name, adoption_id_,
            case when made.parameter = '' then '' else 'relaybox_row ' || made.parameter end, made.rest
        );
        execute format(
            'comment on function relaybox_internal.%1$s_%2$s(%3$s) is %4$L; '
            'revoke all on function relaybox_internal.%1$s_%2$s(%3$s) from public; '
            'alter function relaybox_internal.%1$s_%2$s(%3$s) owner to %5$s',
            made.name, adoption_id_, made.parameter, format(made.told, full_name),
            (select n.nspowner::regrole from pg_namespace n where n.nspname = 'relaybox_internal')
        );
    end loop;
    for made in
        select p.oid::regprocedure as function
        from pg_proc p
        join pg_type t on t.oid = p.proargtypes[0]
        where
            p.pronamespace = 'relaybox_internal'::regnamespace and (
                p.proname = format('message_of_whole_%s', adoption_id_)
                and (t.typrelid <> relation or not adopted.mapping -> 'payload' ? 'row')
                or p.proname = format('message_of_row_%s', adoption_id_) and t.typrelid <> relation
            )
    loop
        execute format('drop function %s', made.function);
    end loop;
    update relaybox_internal.adopted_table a set template = 6 where a.adoption_id = adoption_id_ and a.template <> 6;
end
$$;
