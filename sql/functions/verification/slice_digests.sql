-- Returns the digest of each slice of a plan, in the slices' order, at the source. The destination
-- must find the same after it has copied.
create or replace function relaybox_internal.slice_digests(
    reads_log integer, lower_ pg_snapshot, upper_ pg_snapshot, topics_ text[], slices jsonb
)
returns text[]
language sql stable
as $$
    select array_agg(d.digest order by s.slice)
    from relaybox_internal.batch_slices(slices) s
    cross join lateral relaybox_internal.slice_digest(
        reads_log, lower_, upper_, topics_, s.first_read, s.last_read, s.first_position,
        9223372036854775807
    ) d
$$;
