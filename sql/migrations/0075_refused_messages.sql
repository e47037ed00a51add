-- pre: adds a column
-- Messages of a backlog that the outbox refuses are kept with the unmapped rows, with the reason.

alter table relaybox_internal.unmapped_row add column is_message boolean not null default false;
comment on column relaybox_internal.unmapped_row.content is
'The whole row as JSON; if is_message: the message as JSON.';
comment on column relaybox_internal.unmapped_row.is_message is
'Whether the row was a message already, of a backlog, and the outbox has refused it.';
