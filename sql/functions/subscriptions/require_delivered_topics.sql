-- Raises RB041 if a message between two stream positions has a topic that the caller may not read.
-- require_topics() has passed: a message can still have a topic that this store was not told of, if
-- the store of origin was initialised with a newer relaybox.yaml. Reads the range; called only where
-- topics are bound.
create or replace function relaybox_internal.require_delivered_topics(
    stream_id_ integer, after_stream_position bigint, through_stream_position bigint
)
returns void
language plpgsql stable
as $$
declare
    allowed text[] := array(select a.topic from relaybox_internal.allowed_topics a);
    delivery_run record;
    refused record;
begin
    if '*' = any(allowed) then
        return;
    end if;
    for delivery_run in
        select r.* from relaybox_internal.list_delivery_runs(
            stream_id_, after_stream_position, through_stream_position
        ) r
    loop
        select m.stream_position, m.topic into refused
        from relaybox_internal.read_delivery_run(
            delivery_run.log_id, delivery_run.first_stream_position,
            delivery_run.first_position, delivery_run.last_position, delivery_run.log_positions
        ) m
        where m.topic <> all(allowed)
        limit 1;
        if found then
            perform relaybox_internal.refuse_topics(array[refused.topic], format(
                ', which the message at stream position %s of stream %s has',
                refused.stream_position,
                (select s.stream from relaybox_internal.stream s where s.stream_id = stream_id_)
            ));
        end if;
    end loop;
end
$$;
