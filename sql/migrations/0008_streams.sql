-- post: positions of a stream replace those of a log
-- Receiving is what happens to a store: logs stay as they arrived. Delivering is what it decides: a stream is the sequence
-- of messages that consumers of a route read here, without duplicates, in the order that the route promises.

-- What a message's sender had delivered when it sent: {"sender": index} or {"sender": [epoch, index]}. Sends only.
alter table relaybox.outbox add column clock jsonb;
alter table relaybox.log add column clock jsonb;
alter table relaybox.outbox add constraint index_below_the_largest check (index < 9223372036854775807);
alter table relaybox.outbox add constraint clock_is_an_object check (jsonb_typeof(clock) = 'object' and octet_length(clock::text) <= 65536);

comment on column relaybox.log.epoch is '0: the sender gave no index, and the first log numbered the message by its position';

-- Whether any message of the batch brought an index of its own, or should have; null: published before this was asked.
alter table relaybox.arrival add column has_own_indexes boolean;

-- Senders that number their messages themselves, as declared at the store where they send. Rows never change:
-- another kind is a new epoch. Copied to every store that their routes reach.
create table relaybox.sender (
    origin text not null,
    sender text not null,
    epoch integer not null,
    kind text not null,
    declared_at timestamptz not null default clock_timestamp(),
    declared_by text not null default session_user,
    xid xid8 not null default pg_current_xact_id(),
    constraint sender_pkey primary key (origin, sender, epoch),
    constraint kind_is_known check (kind in ('gapless', 'sparse')),
    constraint sender_is_a_plain_name check (sender ~ '^[A-Za-z0-9_.:-]{1,48}$'),
    constraint epoch_positive check (epoch >= 1)
);

-- Serves "which declarations did this hop not carry on yet".
create index sender_xid on relaybox.sender (xid);

-- next_index(): a row locked until its transaction ends.
create table relaybox.sender_counter (
    sender text primary key,
    epoch integer not null,
    last_index bigint not null default 0
);

-- Who may send as whom, where the store binds senders to database roles.
create table relaybox.sender_role (
    sender text not null,
    role_name name not null,
    bound_at timestamptz not null default clock_timestamp(),
    bound_by text not null default session_user,
    constraint sender_role_pkey primary key (sender, role_name)
);

create table relaybox.stream (
    stream_id integer generated always as identity primary key,
    stream text not null,
    delivery_order text not null,
    message_id_window bigint not null default 0,
    holdback_rows bigint not null default 10000,
    fragments bigint not null default 1000000,
    taken bigint not null default 0,
    last_place bigint not null default 0,
    recheck boolean not null default false,
    registered_at timestamptz not null default clock_timestamp(),
    constraint stream_is_known_once unique (stream),
    constraint delivery_order_is_known check (delivery_order in ('none', 'fifo', 'causal', 'total')),
    constraint stream_limits_positive check (message_id_window >= 0 and holdback_rows >= 1 and fragments >= 1)
);

comment on column relaybox.stream.taken is 'rows of its logs that were decided on; the arrival number of the newest';
comment on column relaybox.stream.last_place is 'places 1 to this one are filled, and never change';
comment on column relaybox.stream.recheck is 'something besides a new batch may release what is held: an operator skipped a gap';

-- The logs that a stream reads: one, or several where a causal stream is sent from several stores.
create table relaybox.stream_log (
    hop_id integer primary key references relaybox.hop_in (hop_id),
    stream_id integer not null references relaybox.stream (stream_id),
    origin text not null,
    decided_batch bigint not null default 0,
    decided_position bigint not null default 0,
    senders_seen pg_snapshot,
    senders_seen_at timestamptz
);

comment on column relaybox.stream_log.senders_seen is 'the source''s snapshot through which its declarations of senders are here';

create index stream_log_stream on relaybox.stream_log (stream_id);

-- The stream: places first_place..last_place are positions of one log, a run of them or (positions) one by one.
create table relaybox.delivery (
    stream_id integer not null references relaybox.stream (stream_id),
    first_place bigint not null,
    last_place bigint not null,
    hop_id integer not null,
    first_position bigint not null,
    positions bigint[],
    delivered_at timestamptz not null default clock_timestamp(),
    constraint delivery_pkey primary key (stream_id, last_place),
    constraint delivery_not_empty check (first_place >= 1 and last_place >= first_place),
    constraint delivery_names_each_position check (positions is null or cardinality(positions) = last_place - first_place + 1)
);

-- One row per batch decided on: the counts that UR is made of, and which rows of the log were dropped as duplicates.
create table relaybox.decision (
    hop_id integer not null references relaybox.hop_in (hop_id),
    batch bigint not null,
    first_taken bigint not null,
    row_count bigint not null,
    duplicate_count bigint not null,
    set_aside_count bigint not null,
    delivered_count bigint not null,
    held_after bigint not null,
    last_place bigint not null,
    duplicates bigint[],
    in_order boolean not null,
    decided_at timestamptz not null default clock_timestamp(),
    constraint decision_pkey primary key (hop_id, batch)
);

comment on column relaybox.decision.first_taken is 'arrival number of the batch''s first row in its stream';
comment on column relaybox.decision.delivered_count is 'messages that this batch let through, those held before included';
comment on column relaybox.decision.held_after is 'messages of the stream in the holdback after this batch';

-- How far each sender with indexes of its own has come in a stream.
create table relaybox.sender_state (
    sender_id integer generated always as identity primary key,
    stream_id integer not null references relaybox.stream (stream_id),
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
    constraint sender_state_of_an_epoch unique (stream_id, sender, epoch),
    constraint stalled_for_a_reason check ((stalled_after is null) = (stalled_reason is null))
);

comment on column relaybox.sender_state.watermark is 'every index up to it was delivered, set aside or skipped';
comment on column relaybox.sender_state.begun_at is 'arrival number of its first accepted message; lower epochs are refused from there on';
comment on column relaybox.sender_state.skipped is 'indexes that an operator gave up';
comment on column relaybox.sender_state.stalled_after is 'messages of this sender beyond this position of its log wait there, undecided and unlisted';
comment on column relaybox.sender_state.range_first_index is 'with the other three: where in the log to look for the newest indexes';

-- Indexes beyond the watermark that were accepted, exactly: one multirange per 4096 indexes.
create table relaybox.seen (
    sender_id integer not null references relaybox.sender_state (sender_id),
    chunk bigint not null,
    indexes int8multirange not null,
    fragments integer not null,
    constraint seen_pkey primary key (sender_id, chunk)
);

-- Where in the log the older indexes of a sender are, about 100,000 positions to a row: a duplicate is compared with its original.
create table relaybox.index_range (
    sender_id integer not null references relaybox.sender_state (sender_id),
    first_index bigint not null,
    last_index bigint not null,
    first_position bigint not null,
    last_position bigint not null,
    constraint index_range_pkey primary key (sender_id, last_index, first_position)
);

-- Received, not yet deliverable.
create table relaybox.held (
    hop_id integer not null references relaybox.hop_in (hop_id),
    "position" bigint not null,
    stream_id integer not null references relaybox.stream (stream_id),
    sender_id integer not null references relaybox.sender_state (sender_id),
    index bigint not null,
    taken bigint not null,
    held_at timestamptz not null default clock_timestamp(),
    constraint held_pkey primary key (hop_id, "position")
);

create index held_sender on relaybox.held (sender_id, index);

-- Set aside with the reason; the message itself stays in its log, under the log's rights.
create table relaybox.dead_letter (
    stream_id integer not null references relaybox.stream (stream_id),
    hop_id integer not null references relaybox.hop_in (hop_id),
    "position" bigint not null,
    reason text not null,
    detail text,
    first_at timestamptz not null default clock_timestamp(),
    constraint dead_letter_pkey primary key (hop_id, "position")
);

create index dead_letter_stream on relaybox.dead_letter (stream_id);

-- Gaps that somebody said will never be filled.
create table relaybox.skip (
    skip_id bigint generated always as identity primary key,
    stream_id integer not null references relaybox.stream (stream_id),
    sender text not null,
    epoch integer not null,
    first_index bigint not null,
    last_index bigint not null,
    reason text not null,
    skipped_by text not null,
    skipped_at timestamptz not null default clock_timestamp(),
    constraint skip_not_empty check (last_index >= first_index and btrim(reason) <> '')
);
