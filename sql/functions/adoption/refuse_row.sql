-- Refuses a row of an adopted table that can't be a message, and with it the statement that inserts
-- it: RB045. Says why.
create or replace function relaybox_internal.refuse_row(
    adoption_id_ integer, content text, problem text default null
)
returns boolean
language plpgsql volatile
as $$
declare
    own_store text := (select s.store from relaybox_internal.store s);
    table_name text := relaybox_internal.adopted_relation(adoption_id_);
begin
    if problem is null then
        execute format('select m.problem from relaybox_internal.message_of_json_%s($1) m', adoption_id_)
        into problem using content::json;
        -- the row as JSON has null for JSON null, and would be a message without headers
        problem := coalesce(problem, (
            select format(
                '%I is JSON null, and no JSON object: write SQL null for no headers', a.mapping -> 'headers' ->> 'column'
            )
            from relaybox_internal.adopted_table a
            where a.adoption_id = adoption_id_ and a.mapping ? 'headers'
        ), 'the row as JSON could be one, so it has a value that JSON does not keep');
    end if;
    raise exception using errcode = 'RB045',
        message = format(
            'table %s: a row can''t be a message of Relaybox, which has adopted the table: %s.%s%s', table_name,
            problem, ' The row: ' || left(content, 300), case when length(content) > 300 then ' ...' end
        ),
        hint = format(
            'Correct the row. Or correct the map of the table, or let such rows be set aside: '
            'relaybox adopt %s --on-unmapped set_aside',
            relaybox_internal.shell_words(own_store, table_name)
        );
end
$$;
