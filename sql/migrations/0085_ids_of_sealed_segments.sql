-- pre: adds columns
-- A search for a message by its id leaves out sealed segments that have no such id.

alter table relaybox_internal.sealed_segment add column first_message_id uuid;
alter table relaybox_internal.sealed_segment add column last_message_id uuid;
alter table relaybox_internal.sealed_segment
add constraint sealed_segment_has_both_ids check ((first_message_id is null) = (last_message_id is null));
comment on column relaybox_internal.sealed_segment.first_message_id is
'The lowest message_id in it; last_message_id is the highest. Null: it has no row, or was sealed '
'before this was recorded.';
