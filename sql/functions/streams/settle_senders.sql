-- Writes down how far each sender of a decision has come: what was accepted, held, set aside; where its indexes are in the log;
-- and whether it stalls, because its holdback or its set of indexes is full.
create or replace function relaybox.settle_senders(here relaybox.stream, log_id integer, first_position_ bigint, last_position_ bigint)
returns void
language plpgsql volatile
set work_mem = '128MB'
set jit = off
as $$
begin
    perform relaybox.move_senders_in_order(here.taken + 1, first_position_, last_position_);
    perform relaybox.move_classified_senders(here.delivery_order in ('fifo', 'causal'));
    if here.delivery_order not in ('fifo', 'causal') then
        perform relaybox.remember_indexes();
    end if;
    perform relaybox.renew_holdback(here.stream_id);
    perform relaybox.pass_skipped_indexes(here.stream_id);
    perform relaybox.forget_ended_epochs();
    perform relaybox.close_index_ranges(here.stream_id);
    perform relaybox.stall_full_senders(here, last_position_);
end
$$;
