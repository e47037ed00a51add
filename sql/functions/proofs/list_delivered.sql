-- The messages at the places of a stream. Inlined.
create or replace function relaybox.list_delivered(stream_name text)
returns table (
    place bigint, hop text, hop_id integer, "position" bigint, sender text, epoch integer, index bigint, clock jsonb
)
language sql stable
as $$
    select p.place, a.hop, a.hop_id, a.position, a.sender, a.epoch, a.index, a.clock
    from relaybox.stream s
    cross join lateral relaybox.stream_places(s.stream_id) p
    join relaybox.list_decided(stream_name) a on a.hop_id = p.hop_id and a.position = p.position
    where s.stream = stream_name
$$;
