-- Drops the functions of an adoption. No trigger may use them any more.
create or replace function relaybox_internal.drop_adoption_functions(adoption_id_ integer) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    made regprocedure;
begin
    for made in
        select p.oid::regprocedure
        from pg_proc p
        where
            p.pronamespace = 'relaybox_internal'::regnamespace
            and p.proname in (
                format('send_rows_%s', adoption_id_), format('send_part_rows_%s', adoption_id_),
                format('message_of_json_%s', adoption_id_), format('message_of_row_%s', adoption_id_),
                format('message_of_whole_%s', adoption_id_)
            )
        order by p.proname not like 'send%', p.proname -- first what calls, then what is called
    loop
        execute format('drop function %s', made);
    end loop;
end
$$;
