-- Reads the columns of an adopted table again that release_columns() has let go, with the map that is
-- on record. For the owner, at the end of the transaction of a migration. Raises RB044.
create or replace function relaybox_internal.take_columns(relation regclass) returns void
language plpgsql volatile
as $$
declare
    adoption integer := relaybox_internal.adoption_of(relation);
    obstacle record;
begin
    for obstacle in
        select o.problem, o.next_step
        from relaybox_internal.adopted_table a
        cross join relaybox_internal.list_adoption_obstacles(relation, a.mapping, a.on_unmapped = 'set_aside') o
        where a.adoption_id = adoption and o.is_refusal
        limit 1
    loop
        raise exception using errcode = 'RB044', message = obstacle.problem, hint = obstacle.next_step;
    end loop;
    perform relaybox_internal.make_adoption_functions(adoption, relation);
end
$$;
