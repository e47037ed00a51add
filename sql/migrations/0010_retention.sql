-- pre: adds only
-- Retention: whole segments that nobody needs are dropped, and each table knows where what it still has begins.

alter table relaybox.store add column first_kept_seq bigint not null default 1;
alter table relaybox.store add constraint first_kept_seq_positive check (first_kept_seq >= 1);

comment on column relaybox.store.first_kept_seq is 'segments of the outbox below it were dropped';

alter table relaybox.hop_in
add column replay_window_seconds bigint,
add column stopped_consumer text not null default 'alarm',
add column first_kept_position bigint not null default 1,
add column compacted_batch bigint not null default 0,
add column compacted_position bigint not null default 0,
add constraint replay_window_never_negative check (replay_window_seconds >= 0),
add constraint stopped_consumer_is_known check (stopped_consumer in ('keep', 'alarm')),
add constraint first_kept_position_positive check (first_kept_position >= 1);

comment on column relaybox.hop_in.replay_window_seconds is 'a message stays for so long after it was delivered; null: for ever';
comment on column relaybox.hop_in.first_kept_position is 'segments of the log below it were dropped';
comment on column relaybox.hop_in.compacted_batch is 'arrivals, receipts and decisions up to it were removed: none of their messages is kept';

alter table relaybox.hop_out
add column replay_window_seconds bigint,
add column stopped_consumer text not null default 'alarm',
add column compacted_batch bigint not null default 0,
add column compacted_position bigint not null default 0,
add constraint replay_window_never_negative check (replay_window_seconds >= 0),
add constraint stopped_consumer_is_known check (stopped_consumer in ('keep', 'alarm'));

comment on column relaybox.hop_out.replay_window_seconds is 'of a hop that reads the outbox: what it sent stays there for so long; null: for ever';
comment on column relaybox.hop_out.compacted_batch is 'plans and confirmations up to it were removed: none of their messages is kept';

alter table relaybox.stream_log add column compacted_duplicates bigint not null default 0;

comment on column relaybox.stream_log.compacted_duplicates is 'duplicates that the removed decisions had counted';

-- Which segments were dropped: of the outbox (hop is null) or of a hop's log; first and last are seqs or positions.
create table relaybox.dropped_segment (
    dropped_at timestamptz not null default clock_timestamp(),
    segment text not null,
    hop text,
    first bigint not null,
    last bigint not null,
    bytes bigint not null,
    dropped_by text not null,
    constraint dropped_segment_pkey primary key (dropped_at, segment)
);
