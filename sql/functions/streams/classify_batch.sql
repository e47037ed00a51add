-- Classifies a range of a log as far as needed: first its senders, then the messages of those that do
-- not bring their messages in order. Of most of these only the sequence is in question: they are
-- sorted. The messages of the others are classified one by one.
create or replace function relaybox_internal.classify_batch(
    stream_ relaybox_internal.stream, input_log relaybox_internal.stream_log, batch_ bigint,
    first_position bigint, last_position bigint
)
returns void
language plpgsql volatile
as $$
declare
    reads_from bigint;
    -- a message of the batch does not conform to its schema, and is not to be delivered
    has_set_aside boolean := coalesce((
        select a.set_aside_count > 0 from relaybox_internal.arrival a
        where a.log_id = input_log.log_id and a.batch = batch_
    ), false);
begin
    perform relaybox_internal.make_delivery_tables();
    perform relaybox_internal.find_batch_senders(
        input_log.log_id, batch_, first_position, last_position
    );
    perform relaybox_internal.resume_stalled_senders(stream_, input_log, first_position);
    perform relaybox_internal.classify_batch_senders(stream_, input_log);
    if has_set_aside then
        perform relaybox_internal.mark_nonconforming_senders(
            input_log.log_id, first_position, last_position
        );
    end if;
    select coalesce(min(b.resumes_after) + 1, first_position) into reads_from
    from pg_temp.decision_sender b;
    if stream_.message_id_window > 0 then
        perform relaybox_internal.find_repeated_ids(
            input_log.log_id, reads_from, last_position, stream_.message_id_window
        );
    end if;
    perform relaybox_internal.begin_sender_states(stream_.stream_id, input_log.origin);
    if stream_.delivery_order = 'causal' and not relaybox_internal.is_causal_batch(
        stream_, input_log.log_id, first_position, last_position
    )
    then
        -- any message may wait for any other: all are looked at
        update pg_temp.decision_sender set is_in_order = false;
    end if;
    if not stream_.recheck
        and not exists (select from pg_temp.decision_sender where not is_in_order)
    then
        return;
    end if;
    perform relaybox_internal.list_batch_indexes(
        input_log.log_id, first_position, last_position
    );
    perform relaybox_internal.find_epoch_ends(stream_, input_log, first_position, last_position);
    if stream_.delivery_order = 'fifo' and not stream_.recheck and not has_set_aside
        and not exists (select from pg_temp.repeated_id)
    then
        perform relaybox_internal.sort_senders(stream_, input_log, first_position);
    end if;
    if stream_.delivery_order in ('none', 'total') then
        perform relaybox_internal.find_seen_indexes(input_log.log_id, reads_from, last_position);
    end if;
    perform relaybox_internal.classify_rows(stream_, input_log, first_position, last_position);
    perform relaybox_internal.set_aside_nonconforming();
    if stream_.delivery_order = 'causal' then
        perform relaybox_internal.classify_clocks(stream_);
    end if;
    perform relaybox_internal.classify_duplicates(first_position);
end
$$;
