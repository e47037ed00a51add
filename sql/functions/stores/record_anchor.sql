-- Records that the outbox is anchored at a seq: no transaction that wrote up to it is open, and what is above it is numbered by this cluster.
create or replace function relaybox.record_anchor(seq bigint) returns void
language sql volatile
as $$
    update relaybox.store s
    set anchor_seq = greatest(s.anchor_seq, seq), system_identifier = f.system_identifier, timeline = f.timeline
    from relaybox.cluster_fingerprint() f
$$;
