-- Seconds since a time by the clock of this server: 0 for null and for a time in the future.
create or replace function relaybox_internal.age_seconds(since timestamptz) returns double precision
language sql stable
as $$
    select coalesce(greatest(extract(epoch from now() - since), 0), 0)::double precision
$$;
