-- Acknowledges what was fetched before, if acked_place says how far, and gives the next messages: one round trip, one transaction, the
-- caller's. What is fetched and not acknowledged comes again, the same rows. No rows: nothing new, or every lane with something new is
-- leased to others. The token of the newest fetch of a lane acknowledges, from any session; it is the same for all rows. Raises RB031 not
-- subscribed, RB033 no token, or what was not fetched, RB034 no longer kept, RB035 token stale, lane leased, RB036 max_count, RB038 detached.
create or replace function relaybox.fetch(
    subscription text, max_count integer default 100, acked_place bigint default null, acked_token text default null,
    only_lane integer default null, worker text default null
)
returns table (
    place bigint, lane integer, token text, replayed boolean, attempt integer, hop text, "position" bigint, message_id uuid, topic text, sender text,
    epoch integer, index bigint, key text, payload text, payload_bytes bytea, headers jsonb, clock jsonb, sent_at timestamptz
)
language plpgsql volatile security definer
set search_path = pg_catalog, relaybox, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
set work_mem = '64MB'
set plan_cache_mode = force_generic_plan -- planning over a log's segments would take a third of a fetch of 100
as $$
declare
    subscribed relaybox.subscription := relaybox.subscription_named("fetch".subscription);
    lane_cursor relaybox.cursor;
    run record;
    set_aside_places bigint[];
    has_refused boolean;
begin
    perform relaybox.require_count(max_count);
    if acked_token is not null and acked_place is null then
        raise exception using errcode = 'RB036',
            message = format('subscription %s: acked_token without acked_place acknowledges nothing', subscribed.subscription),
            hint = 'Give the place up to which the work is done, or no token.';
    end if;
    lane_cursor := relaybox.take_lane(subscribed, max_count, acked_place, acked_token, only_lane, relaybox.worker_name("fetch".worker));
    if lane_cursor.worker is null then
        return;
    end if;
    if lane_cursor.redrive_place is not null then
        return query select * from relaybox.read_redriven(lane_cursor);
        return;
    end if;
    has_refused := exists (
        select from relaybox.failed_attempt f where f.subscription_id = lane_cursor.subscription_id and f.lane = lane_cursor.lane
    );
    set_aside_places := relaybox.set_aside_places(subscribed, lane_cursor.done_place, lane_cursor.fetched_place);
    for run in
        select r.* from relaybox.list_delivery_runs(subscribed.stream_id, lane_cursor.done_place, lane_cursor.fetched_place) r
    loop
        if run.positions is null then
            return query
            select
                m.place, lane_cursor.lane, lane_cursor.token, m.place <= lane_cursor.replay_place,
                lane_cursor.fetch_count + case when has_refused then relaybox.attempts_at(subscribed, m.place) else 0 end,
                run.hop, m.position, m.message_id, m.topic, m.sender, m.epoch, m.index, m.key, m.payload, m.payload_bytes, m.headers,
                m.clock, m.sent_at
            from relaybox.read_position_range(run.hop_id, run.first_place, run.first_position, run.last_position) m
            where relaybox.takes_message(subscribed.topic, subscribed.lanes, subscribed.lane_by, lane_cursor.lane, m.topic, m.sender, m.key)
                and m.place <> all(set_aside_places);
        else
            return query
            select
                m.place, lane_cursor.lane, lane_cursor.token, m.place <= lane_cursor.replay_place,
                lane_cursor.fetch_count + case when has_refused then relaybox.attempts_at(subscribed, m.place) else 0 end,
                run.hop, m.position, m.message_id, m.topic, m.sender, m.epoch, m.index, m.key, m.payload, m.payload_bytes, m.headers,
                m.clock, m.sent_at
            from relaybox.read_position_list(run.hop_id, run.first_place, run.positions) m
            where relaybox.takes_message(subscribed.topic, subscribed.lanes, subscribed.lane_by, lane_cursor.lane, m.topic, m.sender, m.key)
                and m.place <> all(set_aside_places);
        end if;
    end loop;
end
$$;

comment on function relaybox.fetch(text, integer, bigint, text, integer, text) is
'Returns the next messages of one free lane and leases them to a worker. No row: nothing is new, or all lanes are leased.
What is fetched and not acknowledged comes again, the same rows.
`subscription`: its name. `max_count`: greatest number of new messages (100).
`acked_place`, `acked_token`: acknowledge an earlier fetch first, as ack() does; optional.
`only_lane`: fetch from this lane; null: from any lane that is free.
`worker`: the name of your process, the same after a restart; null: the session.
Returns the message with the columns of relaybox.inbox, and: `place`, `lane`, `token` (for ack, nack and release; the same in all rows),
`replayed` (acknowledged before, read again), `attempt` (1 for the first delivery).
Errors: RB031 (not subscribed), RB033 (no token, or acked_place was not fetched), RB034 (no longer kept), RB035 (the token is old, or
only_lane is leased to another worker), RB036 (a value that is not allowed), RB038 (detached).';
