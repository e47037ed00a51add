-- The messages of a run as list_delivery_runs() gives it, in the order of their places: a run of positions is one range scan of the log, a
-- list of positions a lookup each. Inlined: what the caller asks of a message is asked where it is read, and the segments of the log are
-- opened for one of the two ways only, since the other one asks for log 0, which there never is (of null all segments would be locked).
create or replace function relaybox.read_delivery_run(
    log_id integer, first_place bigint, last_place bigint, run_place bigint, first_position bigint, positions bigint[]
)
returns table (
    place bigint, "position" bigint, message_id uuid, topic text, sender text, epoch integer, index bigint, key text,
    payload text, payload_bytes bytea, headers jsonb, clock jsonb, sent_at timestamptz
)
language sql stable
as $$
    (
        select
            run_place + l.position - first_position, l.position, l.message_id, l.topic, l.sender, l.epoch, l.index, l.key,
            l.payload, l.payload_bytes, l.headers, l.clock, l.sent_at
        from relaybox.log l
        where l.hop_id = case when positions is null then log_id else 0 end
            and l.position >= first_position + first_place - run_place and l.position <= first_position + last_place - run_place
        order by l.position
    )
    union all
    (
        select
            first_place + wanted.number - 1, l.position, l.message_id, l.topic, l.sender, l.epoch, l.index, l.key,
            l.payload, l.payload_bytes, l.headers, l.clock, l.sent_at
        from unnest(positions[first_place - run_place + 1:last_place - run_place + 1]) with ordinality wanted (at, number)
        join relaybox.log l on l.hop_id = case when positions is not null then log_id else 0 end and l.position = wanted.at
        order by wanted.number
    )
$$;
