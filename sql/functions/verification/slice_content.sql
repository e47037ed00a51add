-- The messages that a slice of a hop reads, hashed, at the positions where the hop puts them, up to
-- a position. reads_log null: the slice of an outbox batch. Else the slice of that log, which may
-- also be the hop's own. Inlined.
create or replace function relaybox_internal.slice_content(
    reads_log integer, lower_ pg_snapshot, upper_ pg_snapshot, topics_ text[],
    first_read bigint, last_read bigint, first_position bigint, through_position bigint
)
returns table (log_position bigint, message_id uuid, sender text, message_hash text)
language sql stable
as $$
    select
        s.log_position, s.message_id, s.sender,
        relaybox_internal.message_hash(
            s.message_id, s.topic, s.sender, s.epoch, s.index, s.key, s.payload, s.payload_bytes,
            s.headers, s.clock, s.sent_at
        )
    from (
        select o.* from relaybox_internal.read_outbox_slice(
            lower_, upper_, topics_, first_read, last_read, first_position
        ) o
        where reads_log is null
        union all
        select l.*
        from relaybox_internal.read_log_slice(reads_log, first_read, last_read, first_position) l
        where reads_log is not null
    ) s
    where s.log_position <= through_position
$$;
