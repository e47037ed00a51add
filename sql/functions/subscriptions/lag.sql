-- How far each lane of a subscription is behind its stream, as far as that is committed. Locks
-- nothing.
create or replace function relaybox.lag(subscription text)
returns table (
    lane integer, done_stream_position bigint, fetched_stream_position bigint,
    last_stream_position bigint, stream_positions_behind bigint, waiting_since timestamptz,
    worker text, leased_until timestamptz, replaying boolean, failing integer,
    dead_letters integer, moved_at timestamptz, delayed_messages integer, due_at timestamptz,
    is_held boolean
)
language plpgsql stable security definer
set search_path = pg_catalog, relaybox, pg_temp
set row_security = off
as $$
declare
    subscription_ relaybox_internal.subscription
    := relaybox_internal.subscription_named(
        lag.subscription, is_reading => true, is_operating => true
    );
begin
    return query
    select
        c.lane, c.done_stream_position, c.fetched_stream_position, reach.last_stream_position,
        reach.last_stream_position - c.done_stream_position,
        case when (c.due_at > clock_timestamp()) is not true then greatest(c.due_at, (
            select min(first.decided_at)
            from relaybox_internal.stream_log l
            join lateral (
                select d.decided_at from relaybox_internal.decision d
                where d.log_id = l.log_id and d.last_stream_position > c.done_stream_position
                order by d.last_stream_position
                limit 1
            ) first on true
            where l.stream_id = subscription_.stream_id
                and reach.last_stream_position > c.done_stream_position
        )) end,
        c.worker, c.leased_until, c.done_stream_position < c.replay_stream_position,
        (
            select count(*)::integer from relaybox_internal.failed_attempt f
            where f.subscription_id = subscription_.subscription_id and f.lane = c.lane
        ),
        (
            select count(*)::integer from relaybox_internal.dead_letter d
            where d.subscription_id = subscription_.subscription_id and d.lane = c.lane
                and d.state in ('open', 'redriving') and d.reason <> 'delayed'
        ),
        c.moved_at, passed.message_count::integer, least(c.due_at, passed.due_at),
        coalesce(c.due_at > clock_timestamp(), false)
    from relaybox_internal.lane_cursors c
    cross join lateral (
        select greatest(
            c.done_stream_position,
            least(subscription_.through_stream_position, s.last_stream_position)
        ) as last_stream_position
        from relaybox_internal.stream s where s.stream_id = subscription_.stream_id
    ) reach
    cross join lateral (
        select count(*) as message_count, min(d.due_at) as due_at
        from relaybox_internal.dead_letter d
        where d.subscription_id = c.subscription_id and d.lane = c.lane and d.state = 'delayed'
    ) passed
    where c.subscription_id = subscription_.subscription_id
    order by c.lane;
end
$$;

comment on function relaybox.lag(text) is
'Shows how far each lane of a subscription is behind its stream.
`subscription`: its name.
Returns for each `lane`: `done_stream_position` (acknowledged up to here),
    `fetched_stream_position`, `last_stream_position` (of the stream),
    `stream_positions_behind` (of all lanes and topics), `waiting_since` (when the first message
    that is not acknowledged was delivered here, or was due; null while the lane is held), `worker` and `leased_until` (the worker that has
    the lane, and how long), `replaying`, `failing` (messages with a nack that will come again),
    `dead_letters` (open ones), `moved_at` (last committed fetch or ack), `delayed_messages` (passed,
    and not due when last looked at), `due_at` (when the next delayed message is due: one of these, or
    the one that holds the lane, as the newest fetch found), `is_held` (the lane waits for it).
Errors: RB031 (not subscribed), RB040 (bound to other roles).';
