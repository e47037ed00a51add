-- The destination of a hop: its log, and the ledger that says which rows of the log are published.

create table relaybox_internal.hop_in (
    log_id integer generated always as identity primary key,
    hop text not null,
    source text not null,
    published_batch bigint not null default 0,
    published_position bigint not null default 0,
    registered_at timestamptz not null default clock_timestamp(),
    generation integer not null default 1,
    replay_window_seconds bigint,
    stopped_consumer text not null default 'alarm',
    first_kept_position bigint not null default 1,
    compacted_batch bigint not null default 0,
    compacted_position bigint not null default 0,
    detach_after_seconds bigint,
    detach_to text,
    compacted_plan_id uuid,
    source_id uuid,
    constraint hop_arrives_once unique (hop),
    constraint published_never_negative check (published_batch >= 0 and published_position >= 0),
    constraint first_kept_position_positive check (first_kept_position >= 1),
    constraint replay_window_never_negative check (replay_window_seconds >= 0),
    constraint stopped_consumer_is_known check (stopped_consumer in ('keep', 'alarm', 'detach')),
    constraint detach_says_when_and_where check (
        stopped_consumer <> 'detach' or (detach_after_seconds is not null and detach_to is not null)
    )
);
comment on table relaybox_internal.hop_in is
'The hops that arrive in this store: the last published position of each log, and how long '
'messages are kept.';
comment on column relaybox_internal.hop_in.replay_window_seconds is
'How long a message is kept after its delivery. Null: forever.';
comment on column relaybox_internal.hop_in.first_kept_position is
'Retention dropped the segments of the log below this position.';
comment on column relaybox_internal.hop_in.compacted_batch is
'Arrivals, receipts and decisions up to this batch were removed. None of their messages is kept.';
comment on column relaybox_internal.hop_in.detach_after_seconds is
'How long a consumer must have been stopped before segments that only it needs are detached.';
comment on column relaybox_internal.hop_in.detach_to is
'Directory or URI of detached segments. Spark writes and reads it.';
comment on column relaybox_internal.hop_in.source_id is
'store_id of the store that the hop comes from. Null: no transfer has recorded it yet.';
comment on column relaybox_internal.hop_in.compacted_plan_id is
'Plan of compacted_batch. Two stores had the same batch only if its plan was the same.';

-- One partition for each hop, made when the hop is registered. Below it are segments of positions.
create table relaybox_internal.log (
    log_id integer not null,
    epoch integer not null,
    log_position bigint not null,
    index bigint not null,
    message_id uuid not null,
    sent_at timestamptz not null,
    topic text not null,
    sender text not null,
    key text,
    headers jsonb,
    payload text,
    payload_bytes bytea,
    clock jsonb,
    constraint log_pkey primary key (log_id, log_position)
) partition by list (log_id);
comment on table relaybox_internal.log is
'The messages that arrived, one partition for each hop, in segments. It also has rows that are '
'not published yet.';
comment on column relaybox_internal.log.epoch is
'0: the sender gave no index, and the first log numbered the message by its position.';

create table relaybox_internal.receipt (
    log_id integer not null,
    batch bigint not null,
    slice integer not null,
    plan_id uuid not null,
    row_count bigint not null,
    attempt bigint not null,
    copied_at timestamptz not null default clock_timestamp(),
    constraint receipt_pkey primary key (log_id, batch, slice),
    constraint receipt_of_a_hop foreign key (log_id) references relaybox_internal.hop_in (log_id)
);
comment on table relaybox_internal.receipt is
'Which slices of a batch are copied, written by the transaction that copied them.';

create table relaybox_internal.arrival (
    log_id integer not null,
    batch bigint not null,
    plan_id uuid not null,
    first_position bigint not null,
    last_position bigint not null,
    row_count bigint not null,
    slice_count integer not null,
    source_system_identifier bigint not null,
    source_timeline integer not null,
    published_at timestamptz not null default clock_timestamp(),
    has_own_indexes boolean,
    set_aside_count bigint,
    constraint arrival_pkey primary key (log_id, batch),
    constraint arrival_of_a_hop foreign key (log_id) references relaybox_internal.hop_in (log_id),
    constraint arrival_positions_dense check (last_position - first_position + 1 = row_count)
);
comment on table relaybox_internal.arrival is
'Destination ledger: the published batches. Consumers may read up to the last position.';
comment on column relaybox_internal.arrival.has_own_indexes is
'Whether a message of the batch has an index of its own, or should have. Null: published before '
'this was recorded.';
comment on column relaybox_internal.arrival.set_aside_count is
'How many of its messages do not conform to their schema and are not to be delivered. Null: none.';

-- Serves "in which batch did position P arrive".
create unique index arrival_last_position on relaybox_internal.arrival (log_id, last_position);

create table relaybox_internal.hop_check (
    log_id integer not null,
    topic text not null,
    rule text not null,
    constraint hop_check_pkey primary key (log_id, topic),
    constraint hop_check_of_a_hop foreign key (log_id) references relaybox_internal.hop_in (log_id),
    constraint hop_check_is_known check (rule in ('warn', 'set_aside'))
);
comment on table relaybox_internal.hop_check is
'Topics whose messages are checked by their schemas when they arrive in a log. Init writes it.';

create table relaybox_internal.nonconforming_message (
    log_id integer not null,
    log_position bigint not null,
    topic text not null,
    is_set_aside boolean not null,
    problem text not null,
    found_at timestamptz not null default clock_timestamp(),
    constraint nonconforming_message_pkey primary key (log_id, log_position),
    constraint nonconforming_message_of_a_hop foreign key (log_id)
    references relaybox_internal.hop_in (log_id)
);
comment on table relaybox_internal.nonconforming_message is
'Messages that did not conform to the schema of their topic when they arrived at the first store of '
'their route. Later stores get a copy of those that are set aside.';
comment on column relaybox_internal.nonconforming_message.is_set_aside is
'No stream delivers it. False: it was noted only.';
