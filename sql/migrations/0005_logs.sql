-- pre: adds only
-- Destination: the log of each hop, and the ledgers that say what of it may be read.
-- One partition per hop (made when the hop is registered), segments of positions below it.

create table relaybox.log (
    hop_id integer not null,
    epoch integer not null,
    position bigint not null,
    index bigint not null,
    message_id uuid not null,
    sent_at timestamptz not null,
    topic text not null,
    sender text not null,
    key text,
    headers jsonb,
    payload text,
    payload_bytes bytea,
    constraint log_pkey primary key (hop_id, position)
) partition by list (hop_id);

-- "This slice is copied." Written in the transaction that wrote the slice's rows.
create table relaybox.receipt (
    hop_id integer not null,
    batch bigint not null,
    slice integer not null,
    plan_id uuid not null,
    row_count bigint not null,
    attempt bigint not null,
    copied_at timestamptz not null default clock_timestamp(),
    constraint receipt_pkey primary key (hop_id, batch, slice),
    constraint receipt_of_a_hop foreign key (hop_id) references relaybox.hop_in (hop_id)
);

-- "This batch is published." Consumers may read up to its last position.
create table relaybox.arrival (
    hop_id integer not null,
    batch bigint not null,
    plan_id uuid not null,
    first_position bigint not null,
    last_position bigint not null,
    row_count bigint not null,
    slice_count integer not null,
    source_system_identifier bigint not null,
    source_timeline integer not null,
    published_at timestamptz not null default clock_timestamp(),
    constraint arrival_pkey primary key (hop_id, batch),
    constraint arrival_of_a_hop foreign key (hop_id) references relaybox.hop_in (hop_id),
    constraint arrival_positions_dense check (last_position - first_position + 1 = row_count)
);

-- Serves "in which batch did position P arrive".
create unique index arrival_last_position on relaybox.arrival (hop_id, last_position);
