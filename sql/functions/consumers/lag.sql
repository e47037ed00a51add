-- How far each lane of a subscription is behind its stream. places_behind counts the places of all lanes and topics from the lane's
-- on; waiting_since is when the first of them was delivered here; moved_at is when anybody fetched or acknowledged last, as far as that is
-- committed. Raises RB031.
create or replace function relaybox.lag(subscription text)
returns table (
    lane integer, done_place bigint, fetched_place bigint, last_place bigint, places_behind bigint, waiting_since timestamptz,
    worker text, leased_until timestamptz, replaying boolean, failing integer, dead_letters integer,
    moved_at timestamptz
)
language plpgsql stable security definer
set search_path = pg_catalog, relaybox, pg_temp
as $$
declare
    known relaybox.subscription := relaybox.subscription_named(lag.subscription);
begin
    return query
    select
        c.lane, c.done_place, c.fetched_place, reach.last_place, reach.last_place - c.done_place,
        (
            select min(first.decided_at)
            from relaybox.stream_log g
            join lateral (
                select k.decided_at from relaybox.decision k
                where k.hop_id = g.hop_id and k.last_place > c.done_place
                order by k.last_place
                limit 1
            ) first on true
            where g.stream_id = known.stream_id and reach.last_place > c.done_place
        ),
        c.worker, c.leased_until, c.done_place < c.replay_place,
        (
            select count(*)::integer from relaybox.failed_attempt f
            where f.subscription_id = known.subscription_id and f.lane = c.lane
        ),
        (
            select count(*)::integer from relaybox.dead_letter d
            where d.subscription_id = known.subscription_id and d.lane = c.lane and d.state in ('open', 'redriving')
        ),
        c.moved_at
    from relaybox.lane_cursors c
    cross join lateral (
        select greatest(c.done_place, least(known.through_place, s.last_place)) as last_place
        from relaybox.stream s where s.stream_id = known.stream_id
    ) reach
    where c.subscription_id = known.subscription_id
    order by c.lane;
end
$$;

comment on function relaybox.lag(text) is
'Shows how far each lane of a subscription is behind its stream.
`subscription`: its name.
Returns for each `lane`: `done_place` (acknowledged up to here), `fetched_place`, `last_place` (of the stream), `places_behind` (of all lanes and
topics), `waiting_since` (when the first message that is not acknowledged was delivered here), `worker` and `leased_until` (who has the
lane), `replaying`, `failing` (messages with a nack that will come again), `dead_letters` (open ones), `moved_at` (last committed fetch or ack).
Errors: RB031 (not subscribed).';
