-- Decides on the next published batch of a log: which messages its stream delivers, in which order,
-- and which it drops, holds back or sets aside. Runs in the caller's transaction, whose COMMIT must
-- be durable. Returns null if there is no batch; then held messages may have been delivered
-- (deliver_held()). A batch whose senders are all in order becomes one run of positions. Of any
-- other batch, only the messages of senders that are not in order are classified one by one. Locks
-- the stream's row (lock_stream()). Raises RB001, RB003 (require_writable_primary()), RB004 (the
-- log's stream is not registered), RB007 (an init is changing the stream's rules).
create or replace function relaybox_internal.deliver_next(log_id_ integer)
returns relaybox_internal.decision
language plpgsql volatile
as $$
declare
    stream_ relaybox_internal.stream;
    input_log relaybox_internal.stream_log;
    batch relaybox_internal.arrival;
    needs_look boolean;
    is_in_order boolean;
    delivered_count bigint;
    found_times record;
begin
    perform relaybox_internal.require_writable_primary();
    set local synchronous_commit = on;
    stream_ := relaybox_internal.lock_stream(log_id_);
    -- a statement of its own after the lock: it sees the newest decided batch
    select * into input_log from relaybox_internal.stream_log l where l.log_id = log_id_;
    select * into batch
    from relaybox_internal.arrival a where a.log_id = log_id_ and a.batch > input_log.decided_batch
    order by a.batch limit 1;
    if not found then
        if stream_.recheck
            or relaybox_internal.has_sender_to_resume(stream_.stream_id, input_log.origin)
        then
            perform relaybox_internal.deliver_held(stream_, input_log);
        end if;
        return null;
    end if;
    -- recheck: an operator skipped a gap, so that this batch decides on the held messages as well
    needs_look := coalesce(batch.has_own_indexes, true) or stream_.message_id_window > 0
        or stream_.delivery_order = 'causal' or stream_.recheck
        or coalesce(batch.set_aside_count > 0, false);
    is_in_order := true;
    if needs_look then
        perform relaybox_internal.classify_batch(
            stream_, input_log, batch.batch, batch.first_position, batch.last_position
        );
        is_in_order := not stream_.recheck
            and not exists (select from pg_temp.decision_sender d where not d.is_in_order);
    end if;
    if not (stream_.has_expiry and stream_.has_delay) then
        select * into found_times from relaybox_internal.find_times(
            log_id_, batch.first_position, batch.last_position, not stream_.has_expiry,
            not stream_.has_delay
        );
        if found_times.has_expiry or found_times.has_delay then
            update relaybox_internal.stream s set
                has_expiry = s.has_expiry or found_times.has_expiry,
                has_delay = s.has_delay or found_times.has_delay
            where s.stream_id = stream_.stream_id;
        end if;
    end if;
    if is_in_order then
        perform relaybox_internal.append_run(
            stream_, log_id_, batch.first_position, batch.last_position
        );
        delivered_count := batch.row_count;
    else
        delivered_count := relaybox_internal.append_deliverable(
            stream_, log_id_, batch.first_position, batch.last_position
        );
        perform relaybox_internal.set_aside_classified(stream_);
    end if;
    if needs_look then
        perform relaybox_internal.update_sender_states(
            stream_, log_id_, batch.first_position, batch.last_position
        );
    end if;
    return relaybox_internal.record_decision(stream_, batch, is_in_order, delivered_count);
end
$$;
