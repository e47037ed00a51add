-- Retention: which segments were dropped, and which were moved into files.

create table relaybox_internal.dropped_segment (
    dropped_at timestamptz not null default clock_timestamp(),
    segment text not null,
    hop text,
    first bigint not null,
    last bigint not null,
    bytes bigint not null,
    dropped_by text not null,
    account jsonb,
    constraint dropped_segment_pkey primary key (dropped_at, segment)
);
comment on table relaybox_internal.dropped_segment is
'Segments that retention dropped: of the outbox (hop is null; first and last are seqs) or of the '
'log of a hop (positions).';
comment on column relaybox_internal.dropped_segment.account is
'Of an outbox segment: the state of its messages for each hop and topic when it was dropped.';

create table relaybox_internal.detached_segment (
    log_id integer not null references relaybox_internal.hop_in (log_id),
    first bigint not null,
    last bigint not null,
    segment text not null,
    state text not null default 'detaching',
    attempt integer not null default 1,
    directory text not null,
    strays text[] not null default '{}',
    row_count bigint not null,
    hash_sum numeric not null,
    needed_by text[] not null,
    begun_at timestamptz not null default clock_timestamp(),
    begun_by text not null,
    moved_at timestamptz not null default clock_timestamp(),
    moved_by text not null,
    removed_at timestamptz,
    files jsonb,
    payloads_listed boolean not null default false,
    constraint detached_segment_pkey primary key (log_id, first),
    constraint detached_state_is_known check (
        state in ('detaching', 'detached', 'attached', 'released')
    ),
    constraint detached_segment_not_empty check (last > first and row_count > 0),
    constraint needed_files_are_not_removed check (
        removed_at is null or state in ('attached', 'released')
    )
);
comment on table relaybox_internal.detached_segment is
'Segments of logs that were moved into files, and the directory of these files.';
comment on column relaybox_internal.detached_segment.state is
'detaching: the rows are here, files are being written. detached: the rows are only in the files. '
'attached: the rows are here again. released: no consumer needs the files.';
comment on column relaybox_internal.detached_segment.attempt is
'The newest process that detaches or attaches the segment. A higher number supersedes a lower one.';
comment on column relaybox_internal.detached_segment.strays is
'Directories of attempts that failed, until they are removed.';
comment on column relaybox_internal.detached_segment.hash_sum is
'Sum of the hashes of the rows. With row_count it verifies that the files have the same rows.';
comment on column relaybox_internal.detached_segment.moved_at is
'When the segment came into its state.';
comment on column relaybox_internal.detached_segment.files is
'Name, size in bytes, row count, first and last log position of each file, when they were verified. '
'Null: detached by an earlier version.';
comment on column relaybox_internal.detached_segment.payloads_listed is
'detached_payload has all references of its messages. False: detached by an earlier version.';

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
