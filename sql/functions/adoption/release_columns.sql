-- Lets the columns of an adopted table go, so that a migration of the application may drop or retype
-- them. Until take_columns() each insert into the table fails. For the owner, in the transaction of
-- the migration. Raises RB044.
create or replace function relaybox_internal.release_columns(relation regclass) returns void
language plpgsql volatile
as $$
declare
    adoption integer := relaybox_internal.adoption_of(relation);
    made regprocedure;
begin
    for made in
        select p.oid::regprocedure from pg_proc p
        where
            p.pronamespace = 'relaybox_internal'::regnamespace
            and p.proname in (
                format('message_of_json_%s', adoption), format('message_of_row_%s', adoption),
                format('message_of_whole_%s', adoption)
            )
        order by p.proname -- first what calls
    loop
        execute format('drop function %s', made);
    end loop;
end
$$;
