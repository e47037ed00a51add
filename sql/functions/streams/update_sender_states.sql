-- Records how far each sender of a decision has come: what was accepted, held and set aside, where
-- its indexes are in the log, and whether it stalls because its holdback or its set of indexes is
-- full.
create or replace function relaybox_internal.update_sender_states(
    stream_ relaybox_internal.stream, log_id_ integer, first_position_ bigint, last_position_ bigint
)
returns void
language plpgsql volatile
set work_mem = '128MB'
set jit = off
as $$
begin
    perform relaybox_internal.move_senders_in_order(
        stream_.arrival_seq + 1, first_position_, last_position_
    );
    perform relaybox_internal.move_classified_senders(stream_.delivery_order in ('fifo', 'causal'));
    if stream_.delivery_order not in ('fifo', 'causal') then
        perform relaybox_internal.remember_indexes();
    end if;
    perform relaybox_internal.renew_holdback(stream_.stream_id);
    perform relaybox_internal.pass_skipped_indexes(stream_.stream_id);
    perform relaybox_internal.forget_ended_epochs();
    perform relaybox_internal.close_index_ranges(stream_.stream_id);
    perform relaybox_internal.stall_full_senders(stream_, last_position_);
end
$$;
