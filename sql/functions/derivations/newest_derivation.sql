-- The newest version of a route's derivation; null: it has none in this store.
create or replace function relaybox_internal.newest_derivation(route_ text)
returns relaybox_internal.derivation
language sql volatile
as $$
    select d.* from relaybox_internal.derivation d
    where d.route = route_
    order by d.version desc
    limit 1
$$;
