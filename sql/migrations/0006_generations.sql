-- post: columns change their meaning
-- A hop whose source or destination lost history goes on in a new generation, or sends confirmed batches again.

alter table relaybox.hop_out
add column generation integer not null default 1,
add column anchor_seq bigint not null default 0,
add column undelivered int8multirange not null default '{}',
add column resend_through bigint not null default 0;

comment on column relaybox.hop_out.anchor_seq is 'pairs of this generation read above it; no transaction that wrote up to it was open';
comment on column relaybox.hop_out.undelivered is 'seqs up to anchor_seq that no batch has read yet, nor any older generation delivered';
comment on column relaybox.hop_out.resend_through is 'an operator said: batches up to this one may be sent again, the destination lost them';

alter table relaybox.hop_in add column generation integer not null default 1;

-- adopted: published by a ledger that this store lost; the destination has it, its plan can't be read again.
alter table relaybox.batch
add column generation integer not null default 1,
add column adopted boolean not null default false,
add column xid xid8 not null default pg_current_xact_id(),
drop constraint batch_range_not_empty,
drop constraint batch_has_slices,
add constraint batch_range_not_empty check (batch >= 1 and row_count >= 1 and (adopted or reads_through > reads_after)),
add constraint batch_has_slices check (adopted = (jsonb_array_length(slices) = 0));

comment on column relaybox.batch.xid is 'of the planning transaction: equal to the row''s xmin unless the store was dumped and reloaded';

-- Who began a generation of a hop, and what was found then.
create table relaybox.generation (
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
    constraint generation_pkey primary key (hop, generation),
    constraint generation_of_a_hop foreign key (hop) references relaybox.hop_out (hop)
);

-- Messages that the destination has and this store lost.
create table relaybox.ghost (
    hop text not null,
    "position" bigint not null,
    generation integer not null,
    message_id uuid not null,
    sender text not null,
    topic text not null,
    sent_at timestamptz not null,
    constraint ghost_pkey primary key (hop, "position"),
    constraint ghost_of_a_generation foreign key (hop, generation) references relaybox.generation (hop, generation)
);

-- Who said that another cluster, or another timeline, is this store without any loss.
create table relaybox.attestation (
    attested_at timestamptz primary key default clock_timestamp(),
    attested_by text not null,
    reason text not null,
    from_system_identifier bigint not null,
    from_timeline integer not null,
    system_identifier bigint not null,
    timeline integer not null
);
