-- The source of a hop: what it reads, the plan of each batch, and the confirmations that came back.

create table relaybox_internal.hop_out (
    hop text primary key,
    destination text not null,
    reads_log integer,
    topics text[],
    policy text not null,
    batch bigint not null default 0,
    log_position bigint not null default 0,
    lower pg_snapshot,
    attempt bigint not null default 0,
    system_identifier bigint not null,
    timeline integer not null,
    registered_at timestamptz not null default clock_timestamp(),
    generation integer not null default 1,
    anchor_seq bigint not null default 0,
    resend_through bigint not null default 0,
    replay_window_seconds bigint,
    stopped_consumer text not null default 'alarm',
    compacted_batch bigint not null default 0,
    compacted_position bigint not null default 0,
    processed_by text[],
    retired_at timestamptz,
    retired_by text,
    retired_reason text,
    resend_after bigint not null default 0,
    read_ahead int8multirange not null default '{}',
    compacted_read bigint not null default 0,
    compacted_plan_id uuid,
    numbering integer not null default 1,
    subscribed_topics text[] not null default '{}',
    destination_id uuid,
    in_file_at timestamptz,
    in_file_by text,
    removed_at timestamptz,
    removed_by text,
    removed_attempt bigint,
    constraint reads_log_of_a_hop_that_arrives_here
    foreign key (reads_log) references relaybox_internal.hop_in (log_id),
    constraint reads_outbox_or_log check ((reads_log is null) = (lower is not null)),
    constraint outbox_hop_names_its_topics check (
        (reads_log is null) = (cardinality(topics) > 0 and topics is not null)
    ),
    constraint only_a_log_is_read_ahead check (reads_log is not null or read_ahead = '{}'),
    constraint planned_never_negative check (batch >= 0 and log_position >= 0),
    constraint policy_is_known check (policy in ('received', 'cascade', 'processed')),
    constraint processed_by_somebody check (
        processed_by is null or policy = 'processed' and cardinality(processed_by) > 0
    ),
    constraint removed_by_somebody check (
        (removed_at is null) = (removed_by is null)
        and (removed_at is null) = (removed_attempt is null)
    ),
    constraint replay_window_never_negative check (replay_window_seconds >= 0),
    constraint retired_by_somebody check (
        (retired_at is null) = (retired_by is null)
        and (retired_at is null) = (retired_reason is null)
    ),
    constraint stopped_consumer_is_known check (stopped_consumer in ('keep', 'alarm'))
);
comment on table relaybox_internal.hop_out is
'The hops that leave this store: what each one reads, its newest plan, and how it confirms.';
comment on column relaybox_internal.hop_out.lower is
'The snapshot from which the next pair starts. All rows above anchor_seq that it sees are in a '
'batch or in a piece of the backlog.';
comment on column relaybox_internal.hop_out.attempt is
'The newest driver of this hop. A higher number supersedes a lower one.';
comment on column relaybox_internal.hop_out.anchor_seq is
'Pairs of this generation read rows above this seq. No transaction that wrote rows up to it was '
'open.';
comment on column relaybox_internal.hop_out.resend_through is
'An operator stated that the destination lost batches up to this one. They may be sent again.';
comment on column relaybox_internal.hop_out.resend_after is
'While resend_through is set: the last batch that the destination still had.';
comment on column relaybox_internal.hop_out.replay_window_seconds is
'Of a hop that reads the outbox: how long the outbox keeps a message that was sent. Null: forever.';
comment on column relaybox_internal.hop_out.compacted_batch is
'Plans and confirmations up to this batch were removed. None of their messages is kept.';
comment on column relaybox_internal.hop_out.compacted_plan_id is
'Plan of compacted_batch. Two stores had the same batch only if its plan was the same.';
comment on column relaybox_internal.hop_out.processed_by is
'Subscriptions at the destination, which is the last store of a route with policy processed. '
'Null: the hop asks none.';
comment on column relaybox_internal.hop_out.read_ahead is
'Of a hop that reads a log: positions beyond the last one read that the destination already has. '
'Batches leave them out.';
comment on column relaybox_internal.hop_out.compacted_read is
'Of a hop that reads a log: the position up to which the compacted batches had read.';
comment on column relaybox_internal.hop_out.numbering is
'The numbering of the transactions in lower and in the pairs above anchor_seq. If the store has '
'another one, reanchor the hop.';
comment on column relaybox_internal.hop_out.destination_id is
'store_id of the store that the hop goes to. Null: no transfer has recorded it yet.';
comment on column relaybox_internal.hop_out.in_file_at is
'Since which init relaybox.yaml has the hop, or had it until removed_at. Null: none has said so since '
'the store has this column.';
comment on column relaybox_internal.hop_out.removed_at is
'Since which init relaybox.yaml does not have the hop. Null: it has it.';
comment on column relaybox_internal.hop_out.removed_attempt is
'The newest attempt when an init last found that relaybox.yaml does not have the hop. A later attempt '
'shows a driver whose relaybox.yaml has it.';
comment on column relaybox_internal.hop_out.subscribed_topics is
'The topics that consumers asked for and that relaybox.yaml does not name.';

-- (reads_after, reads_through] is a range of outbox.seq inside the pair (lower, upper], or, for a
-- hop that reads a log, a range of positions in that log.
create table relaybox_internal.batch (
    hop text not null,
    batch bigint not null,
    plan_id uuid not null default gen_random_uuid(),
    topics text[],
    lower pg_snapshot,
    upper pg_snapshot,
    pair_last_seq bigint,
    pair_exhausted boolean not null,
    reads_after bigint not null,
    reads_through bigint not null,
    first_position bigint not null,
    last_position bigint not null,
    row_count bigint not null,
    slices jsonb not null,
    system_identifier bigint not null,
    timeline integer not null,
    next_xid xid8 not null,
    planned_at timestamptz not null default clock_timestamp(),
    generation integer not null default 1,
    adopted boolean not null default false,
    xid xid8 not null default pg_current_xact_id(),
    digests text[],
    constraint batch_pkey primary key (hop, batch),
    constraint batch_of_a_hop foreign key (hop) references relaybox_internal.hop_out (hop),
    constraint batch_range_not_empty check (
        batch >= 1 and row_count >= 1 and (adopted or reads_through > reads_after)
    ),
    constraint batch_positions_dense check (
        last_position - first_position + 1 = row_count and first_position >= 1
    ),
    constraint batch_has_slices check (adopted or jsonb_array_length(slices) > 0),
    constraint one_digest_per_slice check (cardinality(digests) = jsonb_array_length(slices)),
    constraint pair_is_whole check (
        (lower is null) = (upper is null) and (upper is null) = (pair_last_seq is null)
    ),
    constraint pair_moves_forward check (
        pg_snapshot_xmin(upper) >= pg_snapshot_xmin(lower)
        and pg_snapshot_xmax(upper) >= pg_snapshot_xmax(lower)
    )
);
comment on table relaybox_internal.batch is
'Source ledger: the plan of each batch. A planned batch never changes.';
comment on column relaybox_internal.batch.adopted is
'The ledger that published this batch is lost. The destination has the batch; its plan cannot be '
'read again.';
comment on column relaybox_internal.batch.xid is
'The planning transaction. It equals the row''s xmin unless the store was dumped and reloaded.';
comment on column relaybox_internal.batch.digests is
'Digest of each slice when it was planned, on a route with `integrity: checksum`.';

-- Serves `relaybox where` and the translation of confirmed positions into batches.
create unique index batch_last_position on relaybox_internal.batch (hop, last_position);

-- Serves hop_topics(): which lists of topics did the batches have. The index has a hash of the
-- list, because an index entry has a greatest length and a list has none.
create index batch_topics on relaybox_internal.batch (hop, hash_array_extended(topics, 0));

create table relaybox_internal.attempt (
    hop text not null,
    batch bigint not null,
    attempt bigint not null,
    recorded_by text not null,
    application text,
    began_at timestamptz not null default clock_timestamp(),
    constraint attempt_pkey primary key (hop, batch, attempt)
);
comment on table relaybox_internal.attempt is
'Which driver tried to transfer which batch, as which Spark application, and when. The protocol '
'does not read it.';

-- hop is a hop of this store or one further down its route: the origin shows the whole cascade.
create table relaybox_internal.confirmation (
    hop text not null,
    state text not null,
    through_position bigint not null,
    through_batch bigint not null,
    happened_at timestamptz not null,
    recorded_at timestamptz not null default clock_timestamp(),
    recorded_by text not null,
    constraint confirmation_pkey primary key (hop, state, through_position),
    constraint state_is_known check (state in ('received', 'processed', 'settled'))
);
comment on table relaybox_internal.confirmation is
'Source ledger: the last position of a hop that the stores further down the route received, '
'processed or settled.';

create table relaybox_internal.backlog (
    hop text not null,
    backlog_id bigint generated always as identity,
    topics text[] not null,
    lower pg_snapshot not null,
    upper pg_snapshot,
    seqs int8multirange not null,
    state text not null default 'routed',
    changed_at timestamptz not null default clock_timestamp(),
    retired_by text,
    retired_reason text,
    constraint backlog_pkey primary key (hop, backlog_id),
    constraint backlog_of_a_hop foreign key (hop) references relaybox_internal.hop_out (hop),
    constraint backlog_not_empty check (cardinality(topics) > 0 and seqs <> '{}'),
    constraint backlog_state_is_known check (state in ('routed', 'unrouted', 'retired')),
    constraint backlog_without_end_is_unrouted check (upper is not null or state = 'unrouted'),
    constraint backlog_retired_by_somebody check ((state = 'retired') = (retired_by is not null)),
    constraint backlog_retired_with_reason check (
        (state = 'retired') = (retired_reason is not null)
    )
);
comment on table relaybox_internal.backlog is
'Pieces of the outbox that no batch of the hop has read: messages of these topics, in seqs, that '
'upper sees and lower does not. Pieces are disjoint.';
comment on column relaybox_internal.backlog.upper is
'Null: all rows that lower does not see, now and later.';
comment on column relaybox_internal.backlog.state is
'routed: the next batches read it, in the order of backlog_id. unrouted: the hop lost these '
'topics, the messages are kept. retired: an operator discarded it, with a reason.';

create table relaybox_internal.generation (
    hop text not null,
    generation integer not null,
    begun_at timestamptz not null default clock_timestamp(),
    begun_by text not null,
    reason text not null,
    adopted_from bigint not null,
    adopted_through bigint not null,
    anchor_seq bigint not null,
    undelivered_count bigint not null,
    ghost_count bigint not null,
    adopted_seqs int8multirange not null default '{}',
    constraint generation_pkey primary key (hop, generation),
    constraint generation_of_a_hop foreign key (hop) references relaybox_internal.hop_out (hop)
);
comment on table relaybox_internal.generation is
'Each time a hop continued after lost history: who did it, why, and what was found then.';
comment on column relaybox_internal.generation.adopted_seqs is
'Rows of the outbox that the destination had: the ledger that was lost had delivered them.';

create table relaybox_internal.ghost (
    hop text not null,
    log_position bigint not null,
    generation integer not null,
    message_id uuid not null,
    sender text not null,
    topic text not null,
    sent_at timestamptz not null,
    constraint ghost_pkey primary key (hop, log_position),
    constraint ghost_of_a_generation
    foreign key (hop, generation) references relaybox_internal.generation (hop, generation)
);
comment on table relaybox_internal.ghost is 'Messages that a destination has and this store lost.';
