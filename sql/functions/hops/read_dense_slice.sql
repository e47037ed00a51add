-- The rows of an outbox slice with as many rows as seqs. Every seq in its range is the batch's, so
-- that the position follows from the seq. The same rows as read_outbox_slice(), without checks of
-- snapshots and without row numbers.
create or replace function relaybox_internal.read_dense_slice(
    first_seq bigint, last_seq bigint, first_position bigint
)
returns table (
    log_position bigint, index bigint, epoch integer, message_id uuid, sent_at timestamptz,
    topic text, sender text, key text, headers jsonb, payload text, payload_bytes bytea, clock jsonb
)
language sql stable parallel safe
as $$
    select
        o.seq - first_seq + first_position, coalesce(o.index, o.seq - first_seq + first_position),
        case when o.index is null then 0 else o.epoch end, o.message_id, o.sent_at,
        o.topic, o.sender, o.key, o.headers, o.payload, o.payload_bytes, o.clock
    from relaybox_internal.sent_rows o
    where o.seq >= first_seq and o.seq <= last_seq
$$;
