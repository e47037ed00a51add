-- pre: adds columns with defaults
-- How the commits of this store are durable, as relaybox.yaml says.

alter table relaybox_internal.store add column durability text not null default 'server';
alter table relaybox_internal.store add column durability_reason text;
alter table relaybox_internal.store add column durability_said_by text;
alter table relaybox_internal.store add column durability_said_at timestamptz;
alter table relaybox_internal.store add constraint durability_is_known check (durability in ('server', 'provider'));
alter table relaybox_internal.store add constraint provider_has_a_reason check (
    durability = 'server' or durability_reason is not null
);
comment on column relaybox_internal.store.durability is
'server: fsync and full_page_writes are on. provider: the provider of this database makes commits '
'durable by other means, as durability_reason says.';
comment on column relaybox_internal.store.durability_reason is
'Why provider was chosen, from relaybox.yaml; null for server.';
comment on column relaybox_internal.store.durability_said_by is
'The login whose init changed it last; null: it was never changed.';
comment on column relaybox_internal.store.durability_said_at is 'When.';
