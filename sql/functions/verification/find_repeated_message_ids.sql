-- Delivered messages of a stream whose sender gave their message_id before, within the window.
-- Inlined in check_stream().
create or replace function relaybox_internal.find_repeated_message_ids(stream_name text)
returns table (kind text, at bigint, example text)
language sql stable
as $$
    select 'message_id_repeated', r.stream_position,
        format(
            'stream position %s: position %s of %s has the id of position %s', r.stream_position,
            r.log_position, r.hop, r.previous_position
        )
    from (
        select p.stream_position, d.hop, d.log_position, s.message_id_window,
            lag(d.log_position) over (
                partition by d.log_id, d.sender, d.message_id order by d.log_position
            ) as previous_position
        from relaybox_internal.stream s
        join relaybox_internal.list_decided(stream_name) d on s.message_id_window > 0
        left join (
            select q.* from relaybox_internal.stream t
            cross join lateral relaybox_internal.list_stream_positions(t.stream_id) q
            where t.stream = stream_name
        ) p on p.log_id = d.log_id and p.log_position = d.log_position
        where s.stream = stream_name
    ) r
    where r.stream_position is not null
        and r.log_position - r.previous_position <= r.message_id_window
$$;
