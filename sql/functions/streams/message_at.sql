-- Where the message at a place of a stream is, and whose it is. No row: there is no such place, or it is no longer kept.
create or replace function relaybox.message_at(stream_id_ integer, place_ bigint)
returns table (hop_id integer, "position" bigint, topic text, sender text, key text)
language sql stable
set enable_seqscan = off
as $$
    select l.hop_id, l.position, l.topic, l.sender, l.key
    from (
        select d.hop_id, coalesce(d.positions[place_ - d.first_place + 1], d.first_position + place_ - d.first_place) as position
        from relaybox.delivery d
        where d.stream_id = stream_id_ and d.last_place >= place_
        order by d.last_place
        limit 1
    ) at
    join relaybox.log l on l.hop_id = at.hop_id and l.position = at.position
$$;
