-- The messages at the stream positions of a stream. Inlined.
create or replace function relaybox_internal.list_delivered(stream_name text)
returns table (
    stream_position bigint, hop text, log_id integer, log_position bigint, sender text,
    epoch integer, index bigint, clock jsonb
)
language sql stable
as $$
    select p.stream_position, a.hop, a.log_id, a.log_position, a.sender, a.epoch, a.index, a.clock
    from relaybox_internal.stream s
    cross join lateral relaybox_internal.list_stream_positions(s.stream_id) p
    join relaybox_internal.list_decided(stream_name) a on a.log_id = p.log_id
        and a.log_position = p.log_position
    where s.stream = stream_name
$$;
