-- Classifies a range of a log as far as it needs it: which senders bring it in order, and of the others every message.
create or replace function relaybox.judge_batch(
    here relaybox.stream, input relaybox.stream_log, batch_ bigint, first_position bigint, last_position bigint
)
returns void
language plpgsql volatile
as $$
declare
    reads_from bigint;
begin
    perform relaybox.make_delivery_tables();
    perform relaybox.find_batch_senders(input.hop_id, batch_, first_position, last_position);
    perform relaybox.take_up_stalled(here, input, first_position);
    perform relaybox.judge_batch_senders(here, input);
    select coalesce(min(b.resumes_after) + 1, first_position) into reads_from from pg_temp.decision_sender b;
    if here.message_id_window > 0 then
        perform relaybox.find_repeated_ids(input.hop_id, reads_from, last_position, here.message_id_window);
    end if;
    perform relaybox.begin_sender_states(here.stream_id, input.origin);
    if not here.recheck and not exists (select from pg_temp.decision_sender where not is_in_order) then
        return;
    end if;
    if here.delivery_order in ('none', 'total') then
        perform relaybox.find_seen_indexes(input.hop_id, reads_from, last_position);
    end if;
    perform relaybox.judge_rows(here, input, first_position, last_position);
    if here.delivery_order = 'causal' then
        perform relaybox.judge_clocks(here);
    end if;
    perform relaybox.judge_duplicates(first_position);
end
$$;
