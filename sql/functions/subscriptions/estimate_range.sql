-- The size of a range of a stream for a subscription. The count is exact where the subscription
-- reads the whole stream. Else the count, and always the bytes and the time to read them, come from
-- a sample of at most 1000 messages.
create or replace function relaybox_internal.estimate_range(
    subscription_ relaybox_internal.subscription,
    first_stream_position bigint, last_stream_position bigint,
    out message_count bigint, out byte_count bigint, out read_seconds double precision
)
language plpgsql volatile
as $$
declare
    entry_count bigint := greatest(0, last_stream_position - first_stream_position + 1);
    stream_name text := (
        select s.stream from relaybox_internal.stream s
        where s.stream_id = subscription_.stream_id
    );
    begun timestamptz := clock_timestamp();
    sample record;
begin
    message_count := 0;
    byte_count := 0;
    read_seconds := 0;
    if entry_count = 0 then
        return;
    end if;
    select
        count(*) as rows_read,
        count(*) filter (
            where subscription_.topic is null or r.topic = subscription_.topic
        ) as matching,
        coalesce(sum(
            coalesce(octet_length(r.payload), octet_length(r.payload_bytes))
            + coalesce(octet_length(r.headers::text), 0)
        ) filter (
            where subscription_.topic is null or r.topic = subscription_.topic
        ), 0) as bytes
    into sample
    from generate_series(0, least(9, (entry_count - 1) / 100)) as chunk (n),
        relaybox.read_stream(
            stream_name, first_stream_position - 1 + chunk.n * (entry_count / 10),
            least(100, entry_count)::integer
        ) r
    where r.stream_position <= last_stream_position;
    if sample.rows_read = 0 then
        return;
    end if;
    message_count := entry_count * sample.matching / sample.rows_read;
    byte_count := entry_count * sample.bytes / sample.rows_read;
    read_seconds := extract(epoch from clock_timestamp() - begun) * entry_count / sample.rows_read;
end
$$;
