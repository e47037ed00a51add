-- Records that the outbox is anchored at a seq: no transaction that wrote up to it is open, and
-- what is above it is numbered by this cluster. After a reload a new numbering begins. Caller is in
-- no savepoint: the row of the numbering names its transaction.
create or replace function relaybox_internal.record_anchor(seq bigint) returns void
language sql volatile
as $$
    update relaybox_internal.numbering set numbering = numbering + 1, xid = pg_current_xact_id() where relaybox_internal.is_reloaded();
    update relaybox_internal.store s
    set anchor_seq = greatest(s.anchor_seq, seq), system_identifier = f.system_identifier, timeline = f.timeline
    from relaybox_internal.cluster_fingerprint() f;
$$;
