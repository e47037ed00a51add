-- Is a driver of this hop connected to this store now? It will drain the hop itself; starting another would be a waste.
-- A hint for pollers, never a lock.
create or replace function relaybox_internal.hop_is_driven(hop_name text) returns boolean
language sql volatile
as $$
    select exists (
        select from pg_stat_activity a
        where a.datname = current_database() and a.application_name = 'relaybox ' || hop_name || ' driver'
    )
$$;
