-- The rows of one slice of an outbox batch, with their positions. The same rows at any time and for
-- any caller. A message without an index of its own gets its position as index, in epoch 0. A plain
-- SQL function, so that the COPY that reads it inlines it: no row is materialised.
create or replace function relaybox_internal.read_outbox_slice(
    lower_ pg_snapshot, upper_ pg_snapshot, topics_ text[], first_seq bigint, last_seq bigint,
    first_position bigint
)
returns table (
    log_position bigint, index bigint, epoch integer, message_id uuid, sent_at timestamptz,
    topic text, sender text, key text, headers jsonb, payload text, payload_bytes bytea, clock jsonb
)
language sql stable parallel safe
as $$
    select
        first_position - 1 + row_number() over (order by o.seq),
        coalesce(o.index, first_position - 1 + row_number() over (order by o.seq)),
        case when o.index is null then 0 else o.epoch end, o.message_id, o.sent_at,
        o.topic, o.sender, o.key, o.headers, o.payload, o.payload_bytes, o.clock
    from relaybox_internal.sent_rows o
    where o.seq >= first_seq
        and o.seq <= last_seq
        and o.topic = any(topics_)
        and (
            (o.xid >= pg_snapshot_xmax(lower_) and o.xid < pg_snapshot_xmax(upper_)
                and (o.xid < pg_snapshot_xmin(upper_) or pg_visible_in_snapshot(o.xid, upper_)))
            or o.xid = any(
                array(
                    select x from pg_snapshot_xip(lower_) x where pg_visible_in_snapshot(x, upper_)
                )
            )
        )
$$;
