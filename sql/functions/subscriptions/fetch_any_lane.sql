-- What fetch() does in each case that is not the usual one. take_lane() locks lanes, moves the cursor
-- and raises most errors; the rest only reads. The two ways to read a run have a query each: a common
-- one would read each row twice. Caller: fetch(), whose settings fix the plans.
create or replace function relaybox_internal.fetch_any_lane(
    subscription text, max_count integer,
    acked_stream_position bigint, acked_token text,
    only_lane integer, worker text
)
returns table (
    stream_position bigint, lane integer, token text, replayed boolean, attempt integer,
    hop text, log_position bigint, message_id uuid, topic text, sender text, epoch integer,
    index bigint, key text, payload text, payload_bytes bytea, headers jsonb, clock jsonb,
    sent_at timestamptz
)
language plpgsql volatile
as $$
declare
    subscribed relaybox_internal.subscription
    := relaybox_internal.subscription_named(fetch_any_lane.subscription, gives_messages => true);
    lane_cursor relaybox_internal.cursor;
    delivery_run record;
    set_aside_stream_positions bigint[];
    has_refused boolean;
begin
    perform relaybox_internal.require_fetch_arguments(
        subscribed, max_count, acked_stream_position, acked_token
    );
    lane_cursor := relaybox_internal.take_lane(
        subscribed, max_count, acked_stream_position, acked_token, only_lane,
        relaybox_internal.worker_name(fetch_any_lane.worker)
    );
    if lane_cursor.worker is null then
        return;
    end if;
    if subscribed.topic is null and (select s.bind_topics from relaybox_internal.store s) then
        perform relaybox_internal.require_fetched_topics(subscribed, lane_cursor);
    end if;
    if lane_cursor.redrive_stream_position is not null then
        return query select * from relaybox_internal.read_redriven(lane_cursor);
        return;
    end if;
    has_refused := exists (
        select from relaybox_internal.failed_attempt f
        where f.subscription_id = lane_cursor.subscription_id and f.lane = lane_cursor.lane
    );
    set_aside_stream_positions := relaybox_internal.set_aside_stream_positions(
        subscribed, lane_cursor.done_stream_position, lane_cursor.fetched_stream_position
    );
    for delivery_run in
        select r.* from relaybox_internal.list_delivery_runs(
            subscribed.stream_id, lane_cursor.done_stream_position,
            lane_cursor.fetched_stream_position
        ) r
    loop
        if delivery_run.log_positions is null then
            return query
            select
                m.stream_position, lane_cursor.lane, lane_cursor.token,
                m.stream_position <= lane_cursor.replay_stream_position,
                lane_cursor.fetch_count + case
                    when has_refused
                        then relaybox_internal.attempts_at(subscribed, m.stream_position)
                    else 0
                end,
                delivery_run.hop, m.log_position, m.message_id, m.topic, m.sender, m.epoch,
                m.index, m.key, m.payload, m.payload_bytes, m.headers, m.clock, m.sent_at
            from relaybox_internal.read_position_range(
                delivery_run.log_id, delivery_run.first_stream_position,
                delivery_run.first_position, delivery_run.last_position
            ) m
            where relaybox_internal.takes_message(
                subscribed.topic, subscribed.lanes, subscribed.lane_by, lane_cursor.lane,
                m.topic, m.sender, m.key
            )
            and m.stream_position <> all(set_aside_stream_positions);
        else
            return query
            select
                m.stream_position, lane_cursor.lane, lane_cursor.token,
                m.stream_position <= lane_cursor.replay_stream_position,
                lane_cursor.fetch_count + case
                    when has_refused
                        then relaybox_internal.attempts_at(subscribed, m.stream_position)
                    else 0
                end,
                delivery_run.hop, m.log_position, m.message_id, m.topic, m.sender, m.epoch,
                m.index, m.key, m.payload, m.payload_bytes, m.headers, m.clock, m.sent_at
            from relaybox_internal.read_position_list(
                delivery_run.log_id, delivery_run.first_stream_position,
                delivery_run.log_positions
            ) m
            where relaybox_internal.takes_message(
                subscribed.topic, subscribed.lanes, subscribed.lane_by, lane_cursor.lane,
                m.topic, m.sender, m.key
            )
            and m.stream_position <> all(set_aside_stream_positions);
        end if;
    end loop;
end
$$;
