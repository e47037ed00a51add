-- Returns a digest of a function that renew_payload_checks() has made, as Postgres has it now: the same
-- on each version of Postgres. Null: there is none of this name. With it, whether it runs as its owner
-- and which settings it has.
create or replace function relaybox_internal.check_body_digest(function_name text) returns text
language sql stable
set search_path = pg_catalog, pg_temp
as $$
    select md5(string_agg(concat_ws(
        e'\n', p.prosrc, pg_get_function_arguments(p.oid), pg_get_function_result(p.oid), p.provolatile,
        p.prosecdef, array(select unnest(p.proconfig) order by 1)::text
    ), e'\n' order by pg_get_function_arguments(p.oid)))
    from pg_proc p
    where p.pronamespace = 'relaybox_internal'::regnamespace and p.proname = check_body_digest.function_name
$$;
