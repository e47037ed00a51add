-- Moves the start of the next pair past a pair that held nothing for this hop's topics, so that a busy
-- outbox is not counted again at every poll. Caller holds the hop through lock_hop(); as durable as a batch,
-- and for the same reason: a snapshot that a crash could contradict would hide later rows.
create or replace function relaybox_internal.skip_empty_pair(hop_name text, upper_ pg_snapshot) returns void
language sql volatile
as $$
    update relaybox_internal.hop_out set lower = upper_ where hop = hop_name
$$;
