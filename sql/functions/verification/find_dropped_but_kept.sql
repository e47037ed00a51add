-- A stream that begins later than its logs: the message before its first stream position is kept.
-- Inlined in check_decisions().
create or replace function relaybox_internal.find_dropped_but_kept(stream_name text)
returns table (kind text, at bigint, example text)
language sql stable
as $$
    select 'stream_position_called_dropped', s.first_kept_stream_position - 1,
        format(
            'the stream begins at stream position %s; '
            'position %s of %s, at stream position %s, is kept: it begins at %s',
            s.first_kept_stream_position, m.log_position, i.hop, s.first_kept_stream_position - 1,
            i.first_kept_position
        )
    from relaybox_internal.stream s
    join relaybox_internal.delivery d on d.stream_id = s.stream_id
        and s.first_kept_stream_position - 1
        between d.first_stream_position and d.last_stream_position
    join relaybox_internal.stream_log l on l.stream_id = s.stream_id and l.log_id = d.log_id
    join relaybox_internal.hop_in i on i.log_id = l.log_id
    cross join lateral (
        select coalesce(
            d.log_positions[s.first_kept_stream_position - d.first_stream_position],
            d.first_position + s.first_kept_stream_position - 1 - d.first_stream_position
        ) as log_position
    ) m
    where s.stream = stream_name and m.log_position >= i.first_kept_position
$$;
