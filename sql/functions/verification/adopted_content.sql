-- The messages that a hop delivered under a ledger that this store lost, hashed from this store, at
-- the positions that they have at the destination. A message that this store lost as well gives no
-- row. reads: for a hop that reads a log, the position of each message there. A first log that was
-- filled again may have given a message another index: the hash leaves out the index of senders
-- without numbers (adopted_rows.sql).
create or replace function relaybox_internal.adopted_content(
    hop_name text, log_positions bigint[], message_ids uuid[], reads bigint[]
)
returns table (log_position bigint, message_hash text)
language sql stable
as $$
    select
        a.log_position,
        relaybox_internal.message_hash(
            o.message_id, o.topic, o.sender, case when o.index is null then 0 else o.epoch end,
            coalesce(o.index, a.log_position),
            o.key, o.payload, o.payload_bytes, o.headers, o.clock, o.sent_at
        )
    from unnest(log_positions, message_ids) a (log_position, message_id)
    join relaybox_internal.hop_out h on h.hop = hop_name and h.reads_log is null
    join relaybox_internal.sent_rows o on o.message_id = a.message_id
    union all
    select
        a.log_position,
        relaybox_internal.message_hash(
            l.message_id, l.topic, l.sender, l.epoch, case when l.epoch > 0 then l.index end,
            l.key, l.payload, l.payload_bytes, l.headers, l.clock, l.sent_at
        )
    from unnest(log_positions, message_ids, reads) a (log_position, message_id, reads)
    join relaybox_internal.hop_out h on h.hop = hop_name
    join relaybox_internal.log l on l.log_id = h.reads_log and l.log_position = a.reads
        and l.message_id = a.message_id
$$;
