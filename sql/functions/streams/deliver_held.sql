-- Decides again, without a new batch, on held messages and on those of stalled senders: releases
-- what a skipped gap held back, sets aside what the skip gives up, and resumes senders that can go
-- on. The counts go to the newest decision of the log, the time of delivery to
-- relaybox_internal.late_delivery. Caller: deliver_next(), which holds the stream's row.
create or replace function relaybox_internal.deliver_held(
    stream_ relaybox_internal.stream, input_log relaybox_internal.stream_log
)
returns void
language plpgsql volatile
as $$
declare
    delivered_count_ bigint;
begin
    -- also for a sender that can go on: classify_batch() then examines all held messages
    stream_.recheck := true;
    perform relaybox_internal.classify_batch(
        stream_, input_log, null, input_log.decided_position + 1, input_log.decided_position
    );
    delivered_count_ := relaybox_internal.append_deliverable(
        stream_, input_log.log_id, input_log.decided_position + 1, input_log.decided_position
    );
    perform relaybox_internal.set_aside_classified(stream_);
    if delivered_count_ > 0 then
        insert into relaybox_internal.late_delivery (stream_id, delivered_at, after_stream_position)
        values (
            stream_.stream_id, relaybox_internal.delivery_time(stream_.stream_id),
            stream_.last_stream_position
        );
    end if;
    update relaybox_internal.decision d set
        delivered_count = d.delivered_count + delivered_count_,
        last_stream_position = stream_.last_stream_position + delivered_count_,
        duplicate_count = d.duplicate_count + (
            select count(*) from pg_temp.classified j where j.outcome = 'duplicate'
        ),
        duplicates = d.duplicates || (
            select array_agg(j.log_position order by j.log_position)
            from pg_temp.classified j where j.outcome = 'duplicate'
        ),
        set_aside_count = d.set_aside_count + (
            select count(*) from pg_temp.classified j where j.outcome <> 'duplicate'
        )
    where d.log_id = input_log.log_id and d.batch = input_log.decided_batch;
    perform relaybox_internal.update_sender_states(
        stream_, input_log.log_id, input_log.decided_position + 1, input_log.decided_position
    );
    update relaybox_internal.decision d set
        held_after = (
            select count(*) from relaybox_internal.held h where h.stream_id = stream_.stream_id
        ),
        resolved_position = relaybox_internal.resolved_position(input_log.log_id)
    where d.log_id = input_log.log_id and d.batch = input_log.decided_batch;
    update relaybox_internal.stream s
    set last_stream_position = stream_.last_stream_position + delivered_count_, recheck = false
    where s.stream_id = stream_.stream_id;
end
$$;
