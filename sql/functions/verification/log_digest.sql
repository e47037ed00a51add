-- Returns count and content of positions of a log, in any order: the sum of a hash per row, which
-- includes the position. Two tables, or a table and files, with the same digest have the same rows
-- at the same positions. relaybox.stores.binary_copy.log_rows computes the same from the bytes that COPY sends.
create or replace function relaybox_internal.log_digest(
    table_ regclass, first bigint, last bigint, out row_count bigint, out hash_sum numeric
)
language plpgsql stable
set enable_seqscan = on
as $$
begin
    execute format(
        $query$
        select count(*), coalesce(sum(('x' || left(md5(record_send(row(
            l.log_position, l.index, l.epoch, l.message_id, l.sent_at, l.topic, l.sender, l.key,
            l.headers, l.payload, l.payload_bytes, l.clock
        ))), 16))::bit(64)::bigint), 0)
        from %s l where l.log_position between $1 and $2
        $query$,
        table_
    )
    into row_count, hash_sum using first, last;
end
$$;
