-- Gives what waits and what is unmapped of adoptions of partitions to the adoption that takes them over,
-- and ends the others of them. The caller holds the lock that keeps writers out (lock_adopted), and
-- has put the triggers of the one adoption on all tables.
create or replace function relaybox_internal.take_over_adoptions(adoption_id_ integer, below integer[]) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    one integer;
begin
    for one in select b.adoption_id from unnest(below) b (adoption_id) where b.adoption_id <> adoption_id_ order by 1 loop
        perform relaybox_internal.drop_adoption_functions(one);
        update relaybox_internal.adopted_row w set adoption_id = adoption_id_ where w.adoption_id = one;
        update relaybox_internal.unmapped_row u set adoption_id = adoption_id_ where u.adoption_id = one;
        delete from relaybox_internal.adopted_table a where a.adoption_id = one;
    end loop;
end
$$;
