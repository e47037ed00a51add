-- Delivered messages of a stream whose message_id came before, within the window. Inlined in check_stream().
create or replace function relaybox.find_repeated_message_ids(stream_name text)
returns table (kind text, at bigint, example text)
language sql stable
as $$
    select 'message_id_repeated', r.place,
        format('place %s: position %s of %s has the id of position %s', r.place, r.position, r.hop, r.previous_position)
    from (
        select p.place, d.hop, d.position, s.message_id_window,
            lag(d.position) over (partition by d.hop_id, d.message_id order by d.position) as previous_position
        from relaybox.stream s
        join relaybox.list_decided(stream_name) d on s.message_id_window > 0
        left join (
            select q.* from relaybox.stream t cross join lateral relaybox.stream_places(t.stream_id) q where t.stream = stream_name
        ) p on p.hop_id = d.hop_id and p.position = d.position
        where s.stream = stream_name
    ) r
    where r.place is not null and r.position - r.previous_position <= r.message_id_window
$$;
