-- Records what was decided on a batch, and moves its stream and its log to the end of the batch.
-- Called by deliver_next(), which has written everything else.
create or replace function relaybox_internal.record_decision(
    stream relaybox_internal.stream, batch_ relaybox_internal.arrival, is_in_order boolean,
    delivered_count_ bigint
)
returns relaybox_internal.decision
language plpgsql volatile
as $$
declare
    outcomes record;
    recorded relaybox_internal.decision;
begin
    if is_in_order then
        select 0::bigint as duplicate_count, 0::bigint as set_aside_count,
            null::bigint[] as duplicates
        into outcomes;
    else
        select count(*) filter (where j.outcome = 'duplicate') as duplicate_count,
            count(*) filter (
                where j.outcome is not null and j.outcome <> 'duplicate'
            ) as set_aside_count,
            array_agg(
                j.log_position order by j.log_position
            ) filter (where j.outcome = 'duplicate') as duplicates
        into outcomes from pg_temp.classified j;
    end if;
    update relaybox_internal.stream s
    set arrival_seq = stream.arrival_seq + batch_.row_count,
        last_stream_position = stream.last_stream_position + delivered_count_, recheck = false
    where s.stream_id = stream.stream_id;
    update relaybox_internal.stream_log l
    set decided_batch = batch_.batch, decided_position = batch_.last_position
    where l.log_id = batch_.log_id;
    insert into relaybox_internal.decision (
        log_id, batch, first_arrival_seq, row_count, duplicate_count, set_aside_count,
        delivered_count, held_after, last_stream_position, duplicates, in_order,
        resolved_position, decided_at
    )
    values (
        batch_.log_id, batch_.batch, stream.arrival_seq + 1, batch_.row_count,
        outcomes.duplicate_count, outcomes.set_aside_count, delivered_count_,
        (select count(*) from relaybox_internal.held h where h.stream_id = stream.stream_id),
        stream.last_stream_position + delivered_count_, outcomes.duplicates, is_in_order,
        relaybox_internal.resolved_position(batch_.log_id),
        relaybox_internal.delivery_time(stream.stream_id)
    )
    returning * into recorded;
    return recorded;
end
$$;
