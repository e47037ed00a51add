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
    known relaybox.subscription := relaybox.subscription_named("fetch".subscription);
    c relaybox.cursor;
    run record;
    first bigint;
    last bigint;
    excluded bigint[];
    retried boolean;
begin
    perform relaybox.require_count(max_count);
    if acked_token is not null and acked_place is null then
        raise exception using errcode = 'RB036',
            message = format('subscription %s: acked_token without acked_place acknowledges nothing', known.subscription),
            hint = 'Give the place up to which the work is done, or no token.';
    end if;
    c := relaybox.take_lane(known, max_count, acked_place, acked_token, only_lane, relaybox.worker_name("fetch".worker));
    if c.worker is null then
        return;
    end if;
    retried := exists (select from relaybox.failed_attempt f where f.subscription_id = c.subscription_id and f.lane = c.lane);
    if c.redrive_place is not null then
        return query
        select
            d.place, c.lane, c.token, d.acknowledged_before, c.fetch_count + d.attempts, i.hop, l.position, l.message_id, l.topic, l.sender,
            l.epoch, l.index, l.key, l.payload, l.payload_bytes, l.headers, l.clock, l.sent_at
        from relaybox.dead_letter d
        join relaybox.hop_in i on i.hop_id = d.hop_id
        join relaybox.log l on l.hop_id = d.hop_id and l.position = d.position
        where d.subscription_id = c.subscription_id and d.lane = c.lane and d.state = 'redriving' and d.place <= c.redrive_place
        order by d.place;
        return;
    end if;
    excluded := relaybox.set_aside_places(known, c.done_place, c.fetched_place);
    for run in
        select d.first_place, d.last_place, d.hop_id, i.hop, d.first_position, d.positions
        from relaybox.delivery d
        join relaybox.hop_in i on i.hop_id = d.hop_id
        where d.stream_id = known.stream_id and d.last_place > c.done_place
        order by d.last_place
    loop
        exit when run.first_place > c.fetched_place;
        first := greatest(run.first_place, c.done_place + 1) - run.first_place;
        last := least(run.last_place, c.fetched_place) - run.first_place;
        if run.positions is null then
            return query
            select
                run.first_place + l.position - run.first_position, c.lane, c.token, run.first_place + l.position - run.first_position <= c.replay_place,
                c.fetch_count + case when retried then relaybox.attempts_at(known, run.first_place + l.position - run.first_position) else 0 end,
                run.hop, l.position, l.message_id, l.topic, l.sender,
                l.epoch, l.index, l.key, l.payload, l.payload_bytes, l.headers, l.clock, l.sent_at
            from relaybox.log l
            where l.hop_id = run.hop_id and l.position >= run.first_position + first and l.position <= run.first_position + last
                and (known.topic is null or l.topic = known.topic)
                and (known.lanes = 1 or relaybox.lane_of(known.lane_by, known.lanes, l.sender, l.key) = c.lane)
                and run.first_place + l.position - run.first_position <> all(excluded)
            order by l.position;
        else
            return query
            select
                run.first_place + first + u.n - 1, c.lane, c.token, run.first_place + first + u.n - 1 <= c.replay_place,
                c.fetch_count + case when retried then relaybox.attempts_at(known, run.first_place + first + u.n - 1) else 0 end,
                run.hop, l.position, l.message_id, l.topic, l.sender,
                l.epoch, l.index, l.key, l.payload, l.payload_bytes, l.headers, l.clock, l.sent_at
            from unnest(run.positions[first + 1:last + 1]) with ordinality u (wanted, n)
            join relaybox.log l on l.hop_id = run.hop_id and l.position = u.wanted
            where (known.topic is null or l.topic = known.topic)
                and (known.lanes = 1 or relaybox.lane_of(known.lane_by, known.lanes, l.sender, l.key) = c.lane)
                and run.first_place + first + u.n - 1 <> all(excluded)
            order by u.n;
        end if;
    end loop;
end
$$;
