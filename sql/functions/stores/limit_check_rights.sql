-- Lets only the owner and drivers call a function that renew_payload_checks() has made: drivers check
-- what hops bring. A producer needs no right: the trigger of the outbox runs as its owner.
create or replace function relaybox_internal.limit_check_rights(function_name text) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    made regprocedure;
begin
    for made in
        select p.oid::regprocedure from pg_proc p
        where p.pronamespace = 'relaybox_internal'::regnamespace and p.proname = limit_check_rights.function_name
    loop
        execute format('revoke all on function %s from public', made);
        execute format('grant execute on function %s to relaybox_driver', made);
    end loop;
end
$$;
