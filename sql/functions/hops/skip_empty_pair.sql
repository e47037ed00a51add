-- Moves the start of the next pair of snapshots past a pair without rows of this hop's topics: a
-- busy outbox is not counted again at every poll. As durable as a batch: a snapshot that a crash
-- could contradict would hide later rows. A snapshot does not name its own transaction as open, so it
-- ends there: what the caller inserts after this is not seen yet. Caller holds the hop through lock_hop().
create or replace function relaybox_internal.skip_empty_pair(hop_name text, upper_ pg_snapshot)
returns void
language sql volatile
as $$
    update relaybox_internal.hop_out h set lower = n.lower
    from (
        select coalesce(
            relaybox_internal.snapshot_below(upper_, pg_current_xact_id_if_assigned()), upper_
        ) as lower
    ) n
    where h.hop = hop_name and pg_snapshot_xmax(h.lower) <= pg_snapshot_xmax(n.lower)
$$;
