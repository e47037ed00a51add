-- The size of a range of a stream for a subscription. The count is exact where the subscription
-- reads the whole stream. Else the count, and always the bytes and the time to read them, come from
-- a sample of at most 1000 messages.
create or replace function relaybox_internal.estimate_range(
    subscription_ relaybox_internal.subscription,
    first_stream_position bigint, last_stream_position bigint,
    out message_count bigint, out byte_count bigint, out read_seconds double precision
)
language plpgsql volatile
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
declare
    entry_count bigint := greatest(0, last_stream_position - first_stream_position + 1);
    begun timestamptz := clock_timestamp();
    rows_read bigint := 0;
    matching_rows bigint := 0;
    matching_bytes bigint := 0;
    delivery_run record;
    sample record;
begin
    message_count := 0;
    byte_count := 0;
    read_seconds := 0;
    if entry_count = 0 then
        return;
    end if;
    for delivery_run in
        select r.*
        from generate_series(0, least(9, (entry_count - 1) / 100)) as chunk (n)
        cross join lateral relaybox_internal.list_delivery_runs(
            subscription_.stream_id, first_stream_position - 1 + chunk.n * (entry_count / 10),
            least(
                last_stream_position,
                first_stream_position - 1 + chunk.n * (entry_count / 10) + least(100, entry_count)
            )
        ) r
    loop
        select
            count(*) as row_count, count(*) filter (where m.is_matching) as matching,
            coalesce(sum(m.byte_count) filter (where m.is_matching), 0) as bytes
        into sample
        from (
            select
                subscription_.topic is null or r.topic = subscription_.topic as is_matching,
                coalesce(octet_length(r.payload), octet_length(r.payload_bytes))
                + coalesce(octet_length(r.headers::text), 0) as byte_count
            from (
                select p.topic, p.payload, p.payload_bytes, p.headers
                from relaybox_internal.read_position_range(
                    -- only one of the two opens the segments of the log: log 0 never exists
                    case when delivery_run.log_positions is null then delivery_run.log_id else 0 end,
                    delivery_run.first_stream_position, delivery_run.first_position,
                    delivery_run.last_position
                ) p
                union all
                select p.topic, p.payload, p.payload_bytes, p.headers
                from relaybox_internal.read_position_list(
                    case when delivery_run.log_positions is null then 0 else delivery_run.log_id end,
                    delivery_run.first_stream_position, delivery_run.log_positions
                ) p
            ) r
        ) m;
        rows_read := rows_read + sample.row_count;
        matching_rows := matching_rows + sample.matching;
        matching_bytes := matching_bytes + sample.bytes;
    end loop;
    if rows_read = 0 then
        return;
    end if;
    message_count := entry_count * matching_rows / rows_read;
    byte_count := entry_count * matching_bytes / rows_read;
    read_seconds := extract(epoch from clock_timestamp() - begun) * entry_count / rows_read;
end
$$;
