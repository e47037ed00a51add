-- The hops that read the outbox and have planned the rows that this transaction wrote: their slices
-- name these rows. A row before all segments that no hop has planned is stray: init gives it a new
-- seq. The planner puts it into the query that asks (no SET). Takes no lock.
create or replace function relaybox_internal.hops_that_planned(row_xid xid8)
returns table (hop text)
language sql stable
as $$
    select h.hop from relaybox_internal.hop_out h
    where h.reads_log is null and h.retired_at is null and pg_visible_in_snapshot(row_xid, h.lower)
$$;
