-- pre: adds only, and allows more than before
-- What only stopped consumers need: the oldest segments of a log go to files (`stopped_consumer: detach`), and come back when asked for.

alter table relaybox.hop_in
add column detach_after_seconds bigint,
add column detach_to text,
drop constraint stopped_consumer_is_known,
add constraint stopped_consumer_is_known check (stopped_consumer in ('keep', 'alarm', 'detach')),
add constraint detach_says_when_and_where check (stopped_consumer <> 'detach' or (detach_after_seconds is not null and detach_to is not null));

comment on column relaybox.hop_in.detach_after_seconds is 'so long a consumer must have stood still before what only it needs is detached';
comment on column relaybox.hop_in.detach_to is 'directory or URI, written and read by Spark';

alter table relaybox.stream add column dropped_place bigint not null default 0;
update relaybox.stream set dropped_place = first_kept_place - 1;
alter table relaybox.stream add constraint dropped_place_is_not_kept check (dropped_place < first_kept_place);

comment on column relaybox.stream.dropped_place is 'places up to it were dropped for good; those between it and first_kept_place are detached';

-- Segments that were read into files: positions first to last. Row by row the same, as row_count and hash_sum say.
create table relaybox.detached_segment (
    hop_id integer not null references relaybox.hop_in (hop_id),
    first bigint not null,
    last bigint not null,
    segment text not null,
    state text not null default 'detaching',
    attempt integer not null default 1,
    directory text not null,
    strays text[] not null default '{}',
    row_count bigint not null,
    hash_sum numeric not null,
    for_whom text[] not null,
    begun_at timestamptz not null default clock_timestamp(),
    begun_by text not null,
    moved_at timestamptz not null default clock_timestamp(),
    moved_by text not null,
    removed_at timestamptz,
    constraint detached_segment_pkey primary key (hop_id, first),
    constraint detached_state_is_known check (state in ('detaching', 'detached', 'attached', 'released')),
    constraint detached_segment_not_empty check (last > first and row_count > 0),
    constraint needed_files_are_not_removed check (removed_at is null or state in ('attached', 'released'))
);

comment on column relaybox.detached_segment.state is
'detaching: rows here, files being written; detached: rows in the files only; attached: rows here again; released: nobody needs the files';
comment on column relaybox.detached_segment.attempt is 'whoever detaches or attaches it; a higher number supersedes a lower one';
comment on column relaybox.detached_segment.strays is 'directories of attempts that came to nothing, until they are removed';
comment on column relaybox.detached_segment.moved_at is 'when it came into its state';
