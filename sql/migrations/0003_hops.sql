-- pre: adds only
-- Each store keeps the hops that arrive in it (hop_in) and the hops that leave it (hop_out).

create table relaybox.hop_in (
    hop_id integer generated always as identity primary key,
    hop text not null,
    source text not null,
    published_batch bigint not null default 0,
    published_position bigint not null default 0,
    registered_at timestamptz not null default clock_timestamp(),
    constraint hop_arrives_once unique (hop),
    constraint published_never_negative check (published_batch >= 0 and published_position >= 0)
);

create table relaybox.hop_out (
    hop text primary key,
    destination text not null,
    reads_log integer,
    topics text[],
    policy text not null,
    batch bigint not null default 0,
    position bigint not null default 0,
    lower pg_snapshot,
    attempt bigint not null default 0,
    system_identifier bigint not null,
    timeline integer not null,
    registered_at timestamptz not null default clock_timestamp(),
    constraint reads_log_of_a_hop_that_arrives_here foreign key (reads_log) references relaybox.hop_in (hop_id),
    constraint reads_outbox_or_log check ((reads_log is null) = (lower is not null)),
    constraint outbox_hop_names_its_topics check ((reads_log is null) = (cardinality(topics) > 0 and topics is not null)),
    constraint policy_is_known check (policy in ('received', 'cascade')),
    constraint planned_never_negative check (batch >= 0 and position >= 0)
);

comment on column relaybox.hop_out.lower is 'snapshot from which the next pair starts; all that it sees is in a batch';
comment on column relaybox.hop_out.attempt is 'newest driver of this hop; a higher number supersedes a lower one';
