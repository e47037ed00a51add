-- Acknowledges what a streaming query has done. Locks the lane, also against a fetch. Raises RB030 if
-- the subscription belongs to another query, and what ack_through() raises. What was detached since it
-- stopped, the query has read from its files: no fetch can, so the cursor moves without one.
create or replace function relaybox.ack_query(subscription text, query uuid, through bigint)
returns bigint
language plpgsql volatile security definer
set search_path = pg_catalog, relaybox, pg_temp
set row_security = off
as $$
declare
    subscribed relaybox_internal.subscription
    := relaybox_internal.subscription_named(ack_query.subscription);
    worker_ constant text := format('query %s', ack_query.query);
    lane_cursor relaybox_internal.cursor;
    detached_through bigint;
begin
    if subscribed.query is distinct from ack_query.query then
        raise exception using errcode = 'RB030',
            message = format('subscription %s belongs to another query', subscribed.subscription),
            hint = 'Give each query a subscription of its own.';
    end if;
    lane_cursor := relaybox_internal.lock_lane(subscribed, 1);
    -- a later statement than the lock, which a drop of a segment waits for
    select least(ack_query.through, s.first_kept_stream_position - 1) into detached_through
    from relaybox_internal.stream s
    where s.stream_id = subscribed.stream_id
        and s.dropped_stream_position <= lane_cursor.done_stream_position;
    if detached_through > lane_cursor.done_stream_position
        and coalesce(lane_cursor.worker, worker_) = worker_ then
        perform relaybox_internal.move_cursor(
            relaybox_internal.reset_cursor(lane_cursor, detached_through)
        );
    end if;
    return relaybox_internal.ack_through(subscribed.subscription, ack_query.through, worker_);
end
$$;

comment on function relaybox.ack_query(text, uuid, bigint) is
'For the Spark format relaybox: acknowledges what a streaming query has done.
`subscription`: its name.
`query`: the id of the query, as begin_query() had it.
`through`: the last stream position.
Returns the stream position through which the subscription is acknowledged now.
Errors: RB030 (the subscription belongs to another query), RB031 (not subscribed), RB035 (a consumer
    has fetched from it), RB040 (bound to other roles).';
