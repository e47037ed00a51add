-- Returns the id of the adoption of a table. Locks its record. Raises RB044 if the table is not
-- adopted.
create or replace function relaybox_internal.adoption_of(relation regclass) returns integer
language plpgsql volatile
as $$
declare
    found_id integer;
begin
    select a.adoption_id into found_id
    from relaybox_internal.adopted_table a
    where relaybox_internal.adopted_relation(a.adoption_id) = relation
    for update;
    if found_id is null then
        raise exception using errcode = 'RB044', message = format('table %s is not adopted', relation),
            hint = format(
                'Run: relaybox adopt %s',
                (select relaybox_internal.shell_words(s.store, relation::text) from relaybox_internal.store s)
            );
    end if;
    return found_id;
end
$$;
