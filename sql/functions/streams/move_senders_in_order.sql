-- Moves the watermark of the senders in order over the batch. first_seq: the arrival number of the
-- batch's first message.
create or replace function relaybox_internal.move_senders_in_order(
    first_seq bigint, first_position_ bigint, last_position_ bigint
)
returns void
language plpgsql volatile
as $$
begin
    update relaybox_internal.sender_state s set
        watermark = b.last_index, begun_at = coalesce(s.begun_at, first_seq),
        moved_at = clock_timestamp(),
        range_first_index = coalesce(s.range_first_index, b.first_index),
        range_last_index = b.last_index,
        range_first_position = coalesce(s.range_first_position, first_position_),
        range_last_position = last_position_
    from pg_temp.decision_sender b
    where b.is_in_order and b.epoch > 0 and s.sender_id = b.sender_id;
end
$$;
