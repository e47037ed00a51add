-- pre: adds only
-- Source ledger: a batch is planned once and never changes.
-- (reads_after, reads_through] is a range of outbox.seq inside the pair (lower, upper],
-- or, for a hop that reads a log, a range of positions in that log.

create table relaybox.batch (
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
    constraint batch_pkey primary key (hop, batch),
    constraint batch_of_a_hop foreign key (hop) references relaybox.hop_out (hop),
    constraint batch_range_not_empty check (batch >= 1 and row_count >= 1 and reads_through > reads_after),
    constraint batch_positions_dense check (last_position - first_position + 1 = row_count and first_position >= 1),
    constraint batch_has_slices check (jsonb_array_length(slices) >= 1),
    constraint pair_is_whole check ((lower is null) = (upper is null) and (upper is null) = (pair_last_seq is null)),
    constraint pair_moves_forward check (pg_snapshot_xmin(upper) >= pg_snapshot_xmin(lower) and pg_snapshot_xmax(upper) >= pg_snapshot_xmax(lower))
);

-- Serves where() and the translation of confirmed positions into batches.
create unique index batch_last_position on relaybox.batch (hop, last_position);

-- Source ledger: what the stores further down said. `hop` is a hop of this store or one
-- further down its route, so that the whole cascade is read at the origin.
create table relaybox.confirmation (
    hop text not null,
    state text not null,
    through_position bigint not null,
    through_batch bigint not null,
    happened_at timestamptz not null,
    recorded_at timestamptz not null default clock_timestamp(),
    recorded_by text not null,
    constraint confirmation_pkey primary key (hop, state, through_position),
    constraint state_is_known check (state in ('received', 'settled'))
);
