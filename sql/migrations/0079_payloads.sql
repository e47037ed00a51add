-- pre: adds tables and a column
-- `relaybox payloads` collects the files of large payloads to which no message refers.

create table relaybox_internal.payload_collection (
    place uuid primary key,
    name text not null,
    location text not null,
    collected_at timestamptz not null default clock_timestamp(),
    collected_by text not null,
    referenced_count bigint not null,
    referenced_bytes bigint not null,
    unreferenced_count bigint not null,
    unreferenced_bytes bigint not null,
    trash_bytes bigint not null
);
comment on table relaybox_internal.payload_collection is
'The newest collection of each place of large payloads. Locked while the references of all stores '
'are read: retention drops no segment meanwhile.';
comment on column relaybox_internal.payload_collection.place is 'The id of the place, as its mark has it.';
comment on column relaybox_internal.payload_collection.name is 'As relaybox.yaml named it then.';
comment on column relaybox_internal.payload_collection.location is
'The directory, or the URI of an object store.';
comment on column relaybox_internal.payload_collection.referenced_count is
'Files to which a message of any store refers.';
comment on column relaybox_internal.payload_collection.unreferenced_count is
'Files to which no message refers, and that were too young to be removed.';
comment on column relaybox_internal.payload_collection.trash_bytes is
'Of removed files that relaybox payloads restore brings back.';

create table relaybox_internal.detached_payload (
    log_id integer not null,
    log_position bigint not null,
    first bigint not null,
    reference jsonb not null,
    constraint detached_payload_pkey primary key (log_id, log_position)
);
comment on table relaybox_internal.detached_payload is
'The references to large payloads of messages that are in files only.';
comment on column relaybox_internal.detached_payload.first is
'Of the detached segment that has the message.';
comment on column relaybox_internal.detached_payload.reference is
'The header relaybox-payload of the message.';

alter table relaybox_internal.detached_segment
add column payloads_listed boolean not null default false;
comment on column relaybox_internal.detached_segment.payloads_listed is
'detached_payload has all references of its messages. False: detached by an earlier version.';
