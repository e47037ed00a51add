-- The senders of a batch of which only the sequence of messages is in question. They are gapless,
-- and no rule for a single message can refuse one of theirs, or skip or end anything: such senders
-- are left to classify_rows(). Inlined in sort_senders().
create or replace function relaybox_internal.list_sortable_senders(
    log_id_ integer, first_position bigint
)
returns table (
    sender_id integer, epoch integer, watermark bigint, first_index bigint, last_index bigint,
    indexes bigint[], log_positions bigint[]
)
language sql stable
as $$
    select b.sender_id, b.epoch, b.watermark, a.first_index, a.last_index, a.indexes,
        a.log_positions
    from pg_temp.decision_sender b
    join pg_temp.arrived_sender a on a.sender = b.sender and a.epoch = b.epoch
    join relaybox_internal.sender_state s on s.sender_id = b.sender_id
    where not b.is_in_order and not b.is_stalled and b.resumes_after is null
        and b.epoch > 0 and b.kind = 'gapless' and not b.is_of_another_store
        and b.first_sent_at >= b.declared_at and b.first_sent_at >= b.first_declared_at
        and s.skipped = '{}' and b.given_up = '{}'
        -- no index is too far, even at the first position
        and a.last_index <= first_position + 1000000
        and not exists (select from pg_temp.epoch_end e where e.sender_id = b.sender_id)
        and not exists (
            select from relaybox_internal.held h
            where h.sender_id = b.sender_id and (h.index <= b.watermark or h.log_id <> log_id_)
        )
        -- two rows are faster one by one
        and cardinality(a.indexes) > 2
$$;
