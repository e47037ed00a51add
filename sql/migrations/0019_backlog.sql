-- post: what is undelivered moves to another table
-- What a hop has read of its outbox, exactly: all that hop_out.lower sees, less the pieces of its backlog.

create table relaybox.backlog (
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
    constraint backlog_of_a_hop foreign key (hop) references relaybox.hop_out (hop),
    constraint backlog_not_empty check (cardinality(topics) > 0 and seqs <> '{}'),
    constraint backlog_state_is_known check (state in ('routed', 'unrouted', 'retired')),
    constraint backlog_without_end_is_unrouted check (upper is not null or state = 'unrouted'),
    constraint backlog_retired_by_somebody check ((state = 'retired') = (retired_by is not null)),
    constraint backlog_retired_with_reason check ((state = 'retired') = (retired_reason is not null))
);

comment on table relaybox.backlog is
'pieces of the outbox that no batch of the hop has read: messages of these topics, in seqs, that upper sees and lower does not; disjoint';
comment on column relaybox.backlog.upper is 'null: whatever lower does not see, now and later';
comment on column relaybox.backlog.state is
'routed: the next batches read it, in the order of backlog_id; unrouted: its topics were taken from the hop, it is kept; retired: given up on record';

-- A capped pair that was not exhausted leaves its rest.
insert into relaybox.backlog (hop, topics, lower, upper, seqs)
select h.hop, b.topics, b.lower, b.upper, int8multirange(int8range(b.reads_through + 1, b.pair_last_seq, '[]')) as seqs
from relaybox.hop_out h
join relaybox.batch b on b.hop = h.hop and b.batch = h.batch and b.generation = h.generation
where not b.pair_exhausted and b.reads_through < b.pair_last_seq;

-- What a generation found undelivered.
insert into relaybox.backlog (hop, topics, lower, upper, seqs)
select h.hop, h.topics, '1:1:' as lower, '9223372036854775807:9223372036854775807:' as upper, h.undelivered
from relaybox.hop_out h
where h.undelivered <> '{}';

-- A retired hop: all that its topics had committed by then is given up; what commits later is unrouted.
insert into relaybox.backlog (hop, topics, lower, upper, seqs, state, changed_at, retired_by, retired_reason)
select
    h.hop, h.topics, h.lower, h.given_up, int8multirange(int8range(h.anchor_seq + 1, q.last_value, '[]')) as seqs,
    'retired' as state, h.retired_at, h.retired_by, h.retired_reason
from relaybox.hop_out h
cross join relaybox.outbox_seq q
where h.given_up is not null and q.last_value > h.anchor_seq;
insert into relaybox.backlog (hop, topics, lower, seqs, state)
select h.hop, h.topics, h.given_up, int8multirange(int8range(h.anchor_seq + 1, 9223372036854775807)) as seqs, 'unrouted' as state
from relaybox.hop_out h
where h.given_up is not null;

alter table relaybox.hop_out drop column undelivered, drop column given_up;
comment on column relaybox.hop_out.lower is
'snapshot from which the next pair starts; all that it sees above anchor_seq is in a batch or in a piece of the backlog';

-- The numbering of transactions that the outbox's rows are in. Rows up to anchor_seq may be of another one: they are read by seq alone.
alter table relaybox.store
add column anchor_seq bigint not null default 0,
add column system_identifier bigint,
add column timeline integer;
comment on column relaybox.store.anchor_seq is
'no transaction that wrote up to it is open, and rows up to it may carry transaction numbers of another cluster';
comment on column relaybox.store.system_identifier is 'of the cluster in whose transaction numbers rows above anchor_seq are written';

-- While a destination that lost history gets its batches again, retention keeps them, settled or not.
alter table relaybox.hop_out add column resend_after bigint not null default 0;
comment on column relaybox.hop_out.resend_after is 'while resend_through is set: the last batch that the destination still had';

alter table relaybox.generation add column adopted_seqs int8multirange not null default '{}';
comment on column relaybox.generation.adopted_seqs is 'rows of the outbox that the destination had, delivered by the ledger that was lost';

alter table relaybox.dropped_segment add column account jsonb;
comment on column relaybox.dropped_segment.account is 'of an outbox segment: what its messages were, per hop and topic, when it went';
