-- pre: adds columns with defaults
-- Where the store asks for it, messages are given again only after an approval in Airflow.

alter table relaybox_internal.store add column require_approval boolean not null default false;
comment on column relaybox_internal.store.require_approval is
'True: only drivers and the owner redrive, replay, or subscribe again at an earlier stream position, '
'as relaybox.yaml says.';
alter table relaybox_internal.subscription add column done_at_end bigint;
comment on column relaybox_internal.subscription.done_at_end is
'Stream position through which every lane was done when the subscription ended. Null: it has not '
'ended, or it ended before this column was added.';
