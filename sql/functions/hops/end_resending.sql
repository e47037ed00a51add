-- Records that the destination has again what it had lost: to lose it once more is a new loss.
-- Caller holds the hop through lock_hop().
create or replace function relaybox_internal.end_resending(hop_name text) returns void
language sql volatile
as $$
    update relaybox_internal.hop_out set resend_through = 0 where hop = hop_name
$$;
