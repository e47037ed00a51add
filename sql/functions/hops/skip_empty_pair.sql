-- Moves the start of the next pair of snapshots past a pair without rows of this hop's topics: a
-- busy outbox is not counted again at every poll. As durable as a batch: a snapshot that a crash
-- could contradict would hide later rows. Caller holds the hop through lock_hop().
create or replace function relaybox_internal.skip_empty_pair(hop_name text, upper_ pg_snapshot)
returns void
language sql volatile
as $$
    update relaybox_internal.hop_out set lower = upper_ where hop = hop_name
$$;
