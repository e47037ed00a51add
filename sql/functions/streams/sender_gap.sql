-- Returns how far a sender's newest epoch is delivered in a stream, its first held index after
-- that, and what was given up. No row: nothing with an index of its own has come from this sender.
create or replace function relaybox_internal.sender_gap(stream_name text, sender_ text)
returns table (
    epoch integer, origin text, delivered_through bigint, first_held bigint, skipped jsonb
)
language sql stable
as $$
    select
        s.epoch, s.origin, s.watermark,
        (select min(h.index) from relaybox_internal.held h where h.sender_id = s.sender_id),
        coalesce((
            select jsonb_agg(jsonb_build_array(k.first_index, k.last_index) order by k.first_index)
            from relaybox_internal.skip k
            where k.stream_id = s.stream_id and k.sender = s.sender and k.epoch = s.epoch
        ), '[]')
    from relaybox_internal.stream own_stream
    join relaybox_internal.sender_state s on s.stream_id = own_stream.stream_id
    where own_stream.stream = stream_name and s.sender = sender_
    order by s.epoch desc limit 1
$$;
