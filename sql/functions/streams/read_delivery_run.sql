-- The keys of the messages of a run of list_delivery_runs(), range or list, in the order of their
-- stream positions. Inlined. A caller that reads whole messages chooses one of the two ways itself:
-- to start a plan of both takes longer than to read a message.
create or replace function relaybox_internal.read_delivery_run(
    log_id_ integer, first_stream_position bigint, first_position bigint, last_position bigint,
    log_positions bigint[]
)
returns table (stream_position bigint, log_position bigint, topic text, sender text, key text)
language sql stable
as $$
    select r.stream_position, r.log_position, r.topic, r.sender, r.key
    from relaybox_internal.read_position_range(
        case when log_positions is null then log_id_ else 0 end, first_stream_position,
        first_position, last_position
    ) r
    union all
    -- only one of the two opens the segments of the log: the other one asks for log 0, which never
    -- exists
    select l.stream_position, l.log_position, l.topic, l.sender, l.key
    from relaybox_internal.read_position_list(
        case when log_positions is not null then log_id_ else 0 end, first_stream_position,
        log_positions
    ) l
$$;
