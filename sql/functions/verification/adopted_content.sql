-- Messages that a hop delivered under a ledger which this store lost, hashed as they are here, at the positions they have there.
-- A message that this store lost as well gives no row. Of a hop that reads a log `reads` says where it stands there; a first log that was
-- filled anew may have given it another index, so that the index of senders without numbers is no part of the hash (adopted_rows.sql).
create or replace function relaybox_internal.adopted_content(hop_name text, log_positions bigint[], message_ids uuid[], reads bigint[])
returns table (log_position bigint, message_hash text)
language sql stable
as $$
    select
        a.log_position,
        relaybox_internal.message_hash(
            o.message_id, o.topic, o.sender, case when o.index is null then 0 else o.epoch end, coalesce(o.index, a.log_position),
            o.key, o.payload, o.payload_bytes, o.headers, o.clock, o.sent_at
        )
    from unnest(log_positions, message_ids) a (log_position, message_id)
    join relaybox_internal.hop_out h on h.hop = hop_name and h.reads_log is null
    join relaybox.outbox o on o.message_id = a.message_id
    union all
    select
        a.log_position,
        relaybox_internal.message_hash(
            l.message_id, l.topic, l.sender, l.epoch, case when l.epoch > 0 then l.index end,
            l.key, l.payload, l.payload_bytes, l.headers, l.clock, l.sent_at
        )
    from unnest(log_positions, message_ids, reads) a (log_position, message_id, reads)
    join relaybox_internal.hop_out h on h.hop = hop_name
    join relaybox_internal.log l on l.log_id = h.reads_log and l.log_position = a.reads and l.message_id = a.message_id
$$;
