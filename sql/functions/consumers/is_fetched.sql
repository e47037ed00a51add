-- Whether a place within what a lane has fetched is a message of this lane that is not set aside.
create or replace function relaybox.is_fetched(c relaybox.cursor, known relaybox.subscription, place_ bigint) returns boolean
language sql stable
as $$
    select case when c.redrive_place is null
        then place_ <> all(relaybox.set_aside_places(known, place_ - 1, place_)) and exists (
            select from relaybox.message_at(known.stream_id, place_) m
            where relaybox.takes_message(known.topic, known.lanes, known.lane_by, c.lane, m.topic, m.sender, m.key)
        )
        else exists (
            select from relaybox.dead_letter d
            where d.subscription_id = c.subscription_id and d.lane = c.lane and d.state = 'redriving' and d.place = place_
        )
    end
$$;
