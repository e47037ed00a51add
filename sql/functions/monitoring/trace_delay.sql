-- The subscriptions that wait until a delayed message is due, [{subscription, due_at}]: it holds a lane of
-- theirs, or they passed it. Null: none. Reads nothing of the message, so that viewers may ask.
create or replace function relaybox_internal.trace_delay(stream_id_ integer, stream_position_ bigint)
returns jsonb
language sql stable
as $$
    select jsonb_agg(
        jsonb_build_object('subscription', w.subscription, 'due_at', w.due_at)
        order by w.subscription
    )
    from (
        select n.subscription, c.due_at
        from relaybox_internal.subscription n
        join relaybox_internal.lane_cursors c on c.subscription_id = n.subscription_id
        where n.stream_id = stream_id_ and n.ended_at is null
            and c.done_stream_position = stream_position_ - 1 and c.due_at > clock_timestamp()
        union all
        select n.subscription, d.due_at
        from relaybox_internal.subscription n
        join relaybox_internal.dead_letter d on d.subscription_id = n.subscription_id
        where n.stream_id = stream_id_ and n.ended_at is null
            and d.stream_position = stream_position_ and d.state = 'delayed'
    ) w
$$;
