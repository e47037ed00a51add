-- The messages of a batch that are classified one by one, with the outcome of the rules for a
-- single message. Inlined in classify_rows().
create or replace function relaybox_internal.list_arrived(
    log_id_ integer, from_position bigint, through_position bigint, seq_shift bigint,
    waits_for_earlier boolean, is_causal boolean,
    has_repeated_ids boolean, has_ended boolean
)
returns table (
    arrival_seq bigint, log_id integer, log_position bigint, sender_id integer, epoch integer,
    index bigint, is_new boolean, watermark bigint,
    is_given_up boolean, original_position bigint, outcome text
)
language sql stable
as $$
    select
        seq_shift + l.log_position, l.log_id, l.log_position, b.sender_id, l.epoch, l.index, true,
        b.watermark, b.given_up @> l.index,
        case
            when has_repeated_ids
                then (
                    select i.original_position
                    from pg_temp.repeated_id i where i.log_position = l.log_position
                )
        end,
        case
            when has_repeated_ids
                and exists (
                    select from pg_temp.repeated_id i where i.log_position = l.log_position
                ) then 'duplicate'
            when b.epoch = 0 and is_causal then 'sender_not_gapless'
            when b.epoch = 0 then case
                when b.first_declared_at <= l.sent_at then 'index_missing'
            end
            when coalesce(b.first_declared_at > l.sent_at, true) then 'sender_not_declared'
            when coalesce(b.declared_at > l.sent_at, true) then 'epoch_not_begun'
            when b.is_of_another_store then 'sender_of_another_store'
            when has_ended
                and seq_shift + l.log_position > (
                    select e.ended_at_seq from pg_temp.epoch_end e where e.sender_id = b.sender_id
                )
                then 'epoch_fenced'
            when b.kind = 'sparse' and waits_for_earlier then 'sender_not_gapless'
            when b.kind = 'gapless'
                and l.index > greatest(l.log_position, coalesce(upper(b.given_up) - 1, 0)) + 1000000
                then 'index_too_far'
        end
    from relaybox_internal.log l
    join pg_temp.decision_sender b on b.sender = l.sender and b.epoch = l.epoch
    where l.log_id = log_id_ and l.log_position >= from_position
        and l.log_position <= through_position and not b.is_in_order and not b.is_stalled
        and not exists (select from pg_temp.sorted_sender s where s.sender_id = b.sender_id)
$$;
