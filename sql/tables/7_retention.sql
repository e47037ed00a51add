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
