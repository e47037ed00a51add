-- The newest snapshot of the hop that looks back furthest; null without hops. All of them know how the
-- transactions ended that it knows.
create or replace function relaybox_internal.oldest_lower(heads relaybox_internal.hop_out[])
returns pg_snapshot
language sql immutable parallel safe
as $$
    select h.lower from unnest(heads) h order by pg_snapshot_xmax(h.lower), pg_snapshot_xmin(h.lower) limit 1
$$;
