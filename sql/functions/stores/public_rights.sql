-- What every login of the server may do in this database without a grant: CONNECT, TEMPORARY. Called by init.
create or replace function relaybox_internal.public_rights() returns text[]
language sql stable
as $$
    select array(
        select r.name from unnest(array['CONNECT', 'TEMPORARY']) r (name) where has_database_privilege('public', current_database(), r.name)
    )
$$;
