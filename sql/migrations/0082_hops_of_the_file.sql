-- pre: adds columns
-- A hop says which init had it in its relaybox.yaml, and which later one had not.

alter table relaybox_internal.hop_out
add column in_file_at timestamptz,
add column in_file_by text,
add column removed_at timestamptz,
add column removed_by text,
add column removed_attempt bigint,
add constraint removed_by_somebody check (
    (removed_at is null) = (removed_by is null)
    and (removed_at is null) = (removed_attempt is null)
);
comment on column relaybox_internal.hop_out.in_file_at is
'Since which init relaybox.yaml has the hop, or had it until removed_at. Null: none has said so since '
'the store has this column.';
comment on column relaybox_internal.hop_out.removed_at is
'Since which init relaybox.yaml does not have the hop. Null: it has it.';
comment on column relaybox_internal.hop_out.removed_attempt is
'The newest attempt when an init last found that relaybox.yaml does not have the hop. A later attempt '
'shows a driver whose relaybox.yaml has it.';
