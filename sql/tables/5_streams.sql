-- Delivering: logs stay as they arrived. A stream is the sequence of messages that the consumers of
-- a route read in this store, without duplicates, in the order that the route asks for.

create table relaybox_internal.stream (
    stream_id integer generated always as identity primary key,
    stream text not null,
    delivery_order text not null,
    message_id_window bigint not null default 0,
    holdback_rows bigint not null default 10000,
    fragments bigint not null default 1000000,
    arrival_seq bigint not null default 0,
    last_stream_position bigint not null default 0,
    recheck boolean not null default false,
    registered_at timestamptz not null default clock_timestamp(),
    first_kept_stream_position bigint not null default 1,
    topics_by_subscription boolean not null default false,
    dropped_stream_position bigint not null default 0,
    rules_pending boolean not null default false,
    has_expiry boolean not null default false,
    has_delay boolean not null default false,
    constraint stream_is_known_once unique (stream),
    constraint delivery_order_is_known check (
        delivery_order in ('none', 'fifo', 'causal', 'total')
    ),
    constraint stream_limits_positive check (
        message_id_window >= 0 and holdback_rows >= 1 and fragments >= 1
    ),
    constraint first_kept_stream_position_positive check (first_kept_stream_position >= 1),
    constraint dropped_stream_position_is_not_kept check (
        dropped_stream_position < first_kept_stream_position
    )
);
comment on table relaybox_internal.stream is
'What this store delivers of a route: its order, its limits, and its last stream position.';
comment on column relaybox_internal.stream.arrival_seq is
'Number of log rows that the stream has decided on. The newest of them has this arrival number.';
comment on column relaybox_internal.stream.last_stream_position is
'Stream positions 1 to this one have messages, and never change.';
comment on column relaybox_internal.stream.recheck is
'An operator skipped a gap: held messages may be deliverable although no batch arrived.';
comment on column relaybox_internal.stream.first_kept_stream_position is
'Consumers can read from this stream position on. Retention raises it before it drops messages.';
comment on column relaybox_internal.stream.topics_by_subscription is
'Subscribing to a topic that no stream of the store carries adds it to this stream.';
comment on column relaybox_internal.stream.dropped_stream_position is
'Stream positions up to this one were dropped. Those after it and below '
'first_kept_stream_position are detached.';
comment on column relaybox_internal.stream.rules_pending is
'An init that changes the rules of the stream in several stores has begun and not ended. Until '
'then the stream decides nothing.';
comment on column relaybox_internal.stream.has_expiry is
'A message with the header relaybox-expires-at was delivered: fetch looks for expired ones.';
comment on column relaybox_internal.stream.has_delay is
'A message with the header relaybox-deliver-after was delivered: fetch looks for those that are not due.';

-- Usually one log. A causal stream that several stores send has several.
create table relaybox_internal.stream_log (
    log_id integer primary key references relaybox_internal.hop_in (log_id),
    stream_id integer not null references relaybox_internal.stream (stream_id),
    origin text not null,
    decided_batch bigint not null default 0,
    decided_position bigint not null default 0,
    senders_seen pg_snapshot,
    compacted_duplicates bigint not null default 0,
    compacted_decided_at timestamptz,
    compacted_stream_position bigint
);
comment on table relaybox_internal.stream_log is
'The logs that a stream reads, and the last decided position of each.';
comment on column relaybox_internal.stream_log.senders_seen is
'The declarations of senders that this snapshot of the source sees are copied.';
comment on column relaybox_internal.stream_log.compacted_duplicates is
'Number of duplicates in the decisions that were removed.';
comment on column relaybox_internal.stream_log.compacted_decided_at is
'Time of the newest decision that was removed.';
comment on column relaybox_internal.stream_log.compacted_stream_position is
'Last stream position of the decisions that were removed.';

create index stream_log_stream on relaybox_internal.stream_log (stream_id);

create table relaybox_internal.stream_topic (
    stream_id integer not null references relaybox_internal.stream (stream_id) on delete cascade,
    topic text not null,
    carried_by text not null default 'file',
    left_after_subscription integer,
    constraint stream_topic_pkey primary key (stream_id, topic),
    constraint carried_by_is_known check (carried_by in ('file', 'subscription', 'nobody'))
);
comment on table relaybox_internal.stream_topic is 'The topics that a stream carries, or carried.';
comment on column relaybox_internal.stream_topic.carried_by is
'file: a route names the topic. subscription: the next store asked for it '
'(topics_by_subscription). nobody: a route named it earlier. Topics that consumers of this store '
'asked for: relaybox_internal.topic_request.';
comment on column relaybox_internal.stream_topic.left_after_subscription is
'The newest subscription of this store when init took the topic from the stream for the last time: '
'those up to it lost the topic. Null: it did not, or before this column was added.';

create table relaybox_internal.topic_request (
    stream_id integer not null references relaybox_internal.stream (stream_id) on delete cascade,
    topic text not null,
    requested_by text not null,
    requested_at timestamptz not null default clock_timestamp(),
    constraint topic_request_pkey primary key (stream_id, topic, requested_by)
);
comment on table relaybox_internal.topic_request is
'Topics that consumers subscribed to where no stream of the store carried them '
'(topics_by_subscription).';
comment on column relaybox_internal.topic_request.requested_by is
'The login. The topic counts for its quota.';

-- Serves "for how many topics has this role asked".
create index topic_request_requested_by on relaybox_internal.topic_request (requested_by);

create table relaybox_internal.decision (
    log_id integer not null references relaybox_internal.hop_in (log_id),
    batch bigint not null,
    first_arrival_seq bigint not null,
    row_count bigint not null,
    duplicate_count bigint not null,
    set_aside_count bigint not null,
    delivered_count bigint not null,
    held_after bigint not null,
    last_stream_position bigint not null,
    duplicates bigint[],
    in_order boolean not null,
    decided_at timestamptz not null default clock_timestamp(),
    resolved_position bigint,
    constraint decision_pkey primary key (log_id, batch)
);
comment on table relaybox_internal.decision is
'For each published batch: how many messages were delivered, held, set aside or found to be '
'duplicates.';
comment on column relaybox_internal.decision.first_arrival_seq is
'Arrival number of the first row of the batch in its stream.';
comment on column relaybox_internal.decision.delivered_count is
'Messages that this batch made deliverable, with those that were held before.';
comment on column relaybox_internal.decision.held_after is
'Messages of the stream that are held after this batch.';
comment on column relaybox_internal.decision.duplicates is
'Log positions of the rows that are duplicates.';
comment on column relaybox_internal.decision.resolved_position is
'When this was decided, every message of the log up to this position was delivered, dropped or '
'set aside. Null: not recorded.';

-- Serves "up to which stream position was delivered before this time".
create index decision_decided_at
on relaybox_internal.decision (log_id, decided_at, last_stream_position);

-- Serves "when was the message at this stream position delivered".
create index decision_last_stream_position
on relaybox_internal.decision (log_id, last_stream_position);

-- log_positions is null if the messages are consecutive positions of the log, from first_position.
create table relaybox_internal.delivery (
    stream_id integer not null references relaybox_internal.stream (stream_id),
    first_stream_position bigint not null,
    last_stream_position bigint not null,
    log_id integer not null,
    first_position bigint not null,
    log_positions bigint[],
    delivered_at timestamptz not null default clock_timestamp(),
    constraint delivery_pkey primary key (stream_id, last_stream_position),
    constraint delivery_not_empty check (
        first_stream_position >= 1 and last_stream_position >= first_stream_position
    ),
    constraint delivery_names_each_position check (
        log_positions is null
        or cardinality(log_positions) = last_stream_position - first_stream_position + 1
    )
);
comment on table relaybox_internal.delivery is
'Runs of stream positions, and the positions in a log of the messages that have them.';
comment on column relaybox_internal.delivery.log_positions is
'Log position of each message of the run. Null: consecutive positions from first_position.';

create table relaybox_internal.late_delivery (
    stream_id integer not null references relaybox_internal.stream (stream_id) on delete cascade,
    delivered_at timestamptz not null,
    after_stream_position bigint not null,
    constraint late_delivery_pkey primary key (stream_id, delivered_at, after_stream_position)
);
comment on table relaybox_internal.late_delivery is
'Messages that were delivered without a new batch: those beyond after_stream_position were '
'delivered at delivered_at or later, although the decision that counts them is older.';

create table relaybox_internal.sender_state (
    sender_id integer generated always as identity primary key,
    stream_id integer not null references relaybox_internal.stream (stream_id),
    sender text not null,
    epoch integer not null,
    origin text not null,
    kind text not null,
    watermark bigint not null default 0,
    seen_beyond bigint not null default 0,
    fragment_count bigint not null default 0,
    held_count bigint not null default 0,
    skipped int8multirange not null default '{}',
    begun_at bigint,
    stalled_after bigint,
    stalled_reason text,
    range_first_index bigint,
    range_last_index bigint,
    range_first_position bigint,
    range_last_position bigint,
    moved_at timestamptz not null default clock_timestamp(),
    stalled_watermark bigint,
    constraint sender_state_of_an_epoch unique (stream_id, sender, epoch),
    constraint stalled_for_a_reason check ((stalled_after is null) = (stalled_reason is null))
);
comment on table relaybox_internal.sender_state is
'For each sender of a stream and each of its epochs: which of its indexes were delivered.';
comment on column relaybox_internal.sender_state.watermark is
'Every index up to this one was delivered, set aside or skipped.';
comment on column relaybox_internal.sender_state.seen_beyond is
'Number of ranges of accepted indexes beyond the watermark. Table seen has them. Equal to '
'fragment_count.';
comment on column relaybox_internal.sender_state.skipped is
'Indexes that the sender''s later messages do not wait for: an operator skipped them, or their '
'messages were set aside before their turn.';
comment on column relaybox_internal.sender_state.begun_at is
'Arrival number of its first accepted message. From there on the stream refuses lower epochs.';
comment on column relaybox_internal.sender_state.stalled_after is
'Messages of this sender beyond this log position wait in the log. The stream has not decided on '
'them and does not list them.';
comment on column relaybox_internal.sender_state.stalled_watermark is
'The watermark when the sender stalled.';
comment on column relaybox_internal.sender_state.range_first_index is
'With the three columns after it: the part of the log that has the newest indexes.';

-- Serves "which senders have messages that wait in a log", asked with each decision.
create index sender_state_stalled
on relaybox_internal.sender_state (stream_id) where stalled_after is not null;

create table relaybox_internal.seen (
    sender_id integer not null references relaybox_internal.sender_state (sender_id),
    chunk bigint not null,
    indexes int8multirange not null,
    fragments integer not null,
    constraint seen_pkey primary key (sender_id, chunk)
);
comment on table relaybox_internal.seen is
'Indexes beyond the watermark of a sender that were accepted, one row for 4096 indexes.';

create table relaybox_internal.index_range (
    sender_id integer not null references relaybox_internal.sender_state (sender_id),
    first_index bigint not null,
    last_index bigint not null,
    first_position bigint not null,
    last_position bigint not null,
    constraint index_range_pkey primary key (sender_id, last_index, first_position)
);
comment on table relaybox_internal.index_range is
'Where the log has the older indexes of a sender, about 100,000 positions in a row. A duplicate '
'is compared with its original.';

create table relaybox_internal.held (
    log_id integer not null references relaybox_internal.hop_in (log_id),
    log_position bigint not null,
    stream_id integer not null references relaybox_internal.stream (stream_id),
    sender_id integer not null references relaybox_internal.sender_state (sender_id),
    index bigint not null,
    arrival_seq bigint not null,
    held_at timestamptz not null default clock_timestamp(),
    constraint held_pkey primary key (log_id, log_position)
);
comment on table relaybox_internal.held is
'Messages that wait for an earlier message of their sender, or for a message that their clock '
'names.';

create index held_sender on relaybox_internal.held (sender_id, index);

create table relaybox_internal.skip (
    skip_id bigint generated always as identity primary key,
    stream_id integer not null references relaybox_internal.stream (stream_id),
    sender text not null,
    epoch integer not null,
    first_index bigint not null,
    last_index bigint not null,
    reason text not null,
    skipped_by text not null,
    skipped_at timestamptz not null default clock_timestamp(),
    constraint skip_not_empty check (last_index >= first_index and btrim(reason) <> '')
);
comment on table relaybox_internal.skip is
'Gaps of senders that an operator skipped: who did it, and why.';
