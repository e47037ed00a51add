-- The places from start to through, each earliest, latest, a place or a time (of delivery in this store). A place at the end is in the
-- range, a time is not: ranges of times that touch share no message, and miss none. Raises as start_place.
create or replace function relaybox.places_between(
    stream_id_ integer, start text, through text, out first_place bigint, out last_place bigint
)
language plpgsql stable
as $$
begin
    perform relaybox.require_length('the end', through, 100);
    first_place := relaybox.start_place(stream_id_, start);
    select least(s.last_place, relaybox.start_place(stream_id_, coalesce(through, 'latest')) - case when through ~ '^[0-9]+$' then 0 else 1 end)
    into last_place from relaybox.stream s where s.stream_id = stream_id_;
end
$$;
