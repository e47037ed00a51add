-- What a snapshot knew of the transactions below a number: a snapshot itself, for a reader that looked
-- at the rows of those transactions only.
create or replace function relaybox_internal.snapshot_below(taken pg_snapshot, xid xid8)
returns pg_snapshot
language sql immutable strict parallel safe
as $$
    select case
        when xid >= pg_snapshot_xmax(taken) then taken
        else format(
            '%s:%s:%s', least(pg_snapshot_xmin(taken)::text::numeric, xid::text::numeric), xid,
            (
                select string_agg(x::text, ',' order by x)
                from pg_snapshot_xip(taken) x where x < xid
            )
        )::pg_snapshot
    end
$$;
