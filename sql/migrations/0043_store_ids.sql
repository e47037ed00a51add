-- pre: adds columns with defaults
-- Each store has an id, and each hop records the ids of the two stores it connects.

alter table relaybox_internal.store add column store_id uuid not null default gen_random_uuid();
alter table relaybox_internal.hop_in add column source_id uuid;
alter table relaybox_internal.hop_out add column destination_id uuid;
comment on column relaybox_internal.store.store_id is
'Made by the first init. A dump, a backup and a replica of this store have it too; another database '
'never has.';
comment on column relaybox_internal.hop_in.source_id is
'store_id of the store that the hop comes from. Null: no transfer has recorded it yet.';
comment on column relaybox_internal.hop_out.destination_id is
'store_id of the store that the hop goes to. Null: no transfer has recorded it yet.';
