-- Sending: producers insert into the outbox in their own transactions. Its rows never change.

-- CACHE 1 keeps seq in insertion order across sessions. With a larger cache a third of all
-- cause-and-effect pairs was inverted.
create sequence relaybox.outbox_seq as bigint cache 1;
comment on sequence relaybox.outbox_seq is 'Numbers the rows of relaybox.outbox.';

-- Time-ordered ids keep the index on message_id append-mostly. Postgres 18 makes them itself.
-- Before 18 the first 48 bits of a random id are replaced by the time in milliseconds.
do $$
begin
    if current_setting('server_version_num')::integer >= 180000 then
        create function relaybox.new_message_id() returns uuid language sql volatile
        return uuidv7();
    else
        create function relaybox.new_message_id() returns uuid language sql volatile
        return encode(
            set_bit(set_bit(overlay(
                uuid_send(gen_random_uuid())
                placing substring(
                    int8send((extract(epoch from clock_timestamp()) * 1000)::bigint) from 3
                )
                from 1 for 6
            ), 52, 1), 53, 1), 'hex'
        )::uuid;
    end if;
end
$$;
comment on function relaybox.new_message_id() is
'Returns a new message id: a UUID whose first bits are the time, so that ids of the same time are '
'near each other in an index.';

-- In place of sql/functions/stores/accepts_message.sql, which comes in the same transaction: the table
-- needs it before.
create function relaybox_internal.accepts_message(
    topic text, sender text, key text, index bigint, epoch integer, headers jsonb, payload text,
    payload_bytes bytea, clock jsonb
)
returns boolean language plpgsql immutable parallel safe as $$
begin
    raise exception 'the functions of Relaybox are not made yet';
end
$$;

create table relaybox.outbox (
    seq bigint not null default nextval('relaybox.outbox_seq'),
    xid xid8 not null default pg_current_xact_id(),
    message_id uuid not null default relaybox.new_message_id(),
    index bigint,
    sent_at timestamptz not null default clock_timestamp(),
    epoch integer not null default 1,
    topic text not null,
    sender text not null,
    key text,
    headers jsonb,
    payload text,
    payload_bytes bytea,
    clock jsonb,
    constraint outbox_pkey primary key (seq),
    constraint message_is_accepted check (
        relaybox_internal.accepts_message(
            topic, sender, key, index, epoch, headers, payload, payload_bytes, clock
        )
    )
) partition by range (seq);

-- Serves the plan of a batch (rows that became visible between two snapshots) and the poll for new
-- messages.
create index outbox_xid on relaybox.outbox (xid);

-- Serves `relaybox where MESSAGE_ID`.
create index outbox_message_id on relaybox.outbox (message_id);

comment on table relaybox.outbox is
'Insert a message here, in the transaction of your own work: it is sent if that commits. Rows are '
'never changed.';
comment on column relaybox.outbox.seq is 'Order of insertion, given by the store.';
comment on column relaybox.outbox.xid is
'The transaction that inserted the row, given by the store.';
comment on column relaybox.outbox.message_id is
'Optional; made if absent. Give it again when you repeat an insert whose outcome is unknown.';
comment on column relaybox.outbox.index is
'Optional, from 1: number of the message for a sender that numbers its messages itself, such as '
'next_index() gives.';
comment on column relaybox.outbox.sent_at is 'When the row was inserted, given by the store.';
comment on column relaybox.outbox.epoch is
'Of the numbering, 1 if absent; sender_epoch() gives it.';
comment on column relaybox.outbox.topic is '1 to 48 of a-z 0-9 _ . - Routes choose messages by it.';
comment on column relaybox.outbox.sender is 'Who sends, 1 to 48 of A-Z a-z 0-9 _ . : -';
comment on column relaybox.outbox.key is
'Optional, at most 200 characters. Subscriptions with lane_by key keep the order of a key.';
comment on column relaybox.outbox.headers is
'Optional JSON object, at most 64 KiB and 64 levels; each number is between -1e308 and 1e308.';
comment on column relaybox.outbox.payload is
'Text, at most 16 MiB. Exactly one of payload and payload_bytes.';
comment on column relaybox.outbox.payload_bytes is
'Bytes, at most 16 MiB. Exactly one of payload and payload_bytes.';
comment on column relaybox.outbox.clock is
'Optional JSON object, at most 64 KiB and 1,000 senders: what the sender had received when it '
'sent, {"sender": index} or {"sender": [epoch, index]}.';

-- A producer never fails for want of a segment: rows that no segment covers are inserted here, and
-- the next ensure_outbox_segments() makes a segment of them.
create table relaybox_internal.outbox_overflow partition of relaybox.outbox default;
comment on table relaybox_internal.outbox_overflow is
'Rows of the outbox that no segment covers. The next ensure_outbox_segments() makes a segment of '
'them.';

-- One row for each sealed segment: its table refuses rows from then on, so no later transaction has a
-- row in it. Hops whose newest snapshot is after sealed_xid never look at it again.
create table relaybox_internal.sealed_segment (
    last_seq bigint primary key,
    first_seq bigint not null,
    segment oid not null,
    sealed_xid xid8 not null default pg_current_xact_id(),
    sealed_at timestamptz not null default clock_timestamp(),
    first_message_id uuid,
    last_message_id uuid,
    constraint sealed_segment_not_empty check (last_seq >= first_seq),
    constraint sealed_segment_has_both_ids check ((first_message_id is null) = (last_message_id is null))
);
comment on table relaybox_internal.sealed_segment is
'Segments of the outbox that take no rows any more, from the oldest on.';
comment on column relaybox_internal.sealed_segment.segment is
'Its table. A dump and reload gives it another number.';
comment on column relaybox_internal.sealed_segment.sealed_xid is
'The sealing transaction: those of all rows in it were before. It equals the row''s xmin unless the '
'store was dumped and reloaded; then the segment counts as not sealed.';
comment on column relaybox_internal.sealed_segment.first_message_id is
'The lowest message_id in it; last_message_id is the highest. Null: it has no row, or was sealed '
'before this was recorded.';

-- The trigger of a sealed segment. Not a file of init: the init of an older version would drop the
-- function, and segments need it.
create function relaybox_internal.refuse_late_row() returns trigger
language plpgsql security definer
set search_path = pg_catalog, relaybox, pg_temp
set row_security = off
as $$
begin
    -- a dump brings the trigger to another cluster, where it refuses nothing
    if not exists (
        select from relaybox_internal.sealed_segment s
        where s.segment = tg_relid
            and s.xmin::text::bigint = s.sealed_xid::text::numeric % 4294967296
    ) then
        return new;
    end if;
    raise exception using errcode = 'RB009',
        message = format(
            'seq %s is in segment %s, which is sealed: hops have read it, and would never read this '
            'row. The sequence relaybox.outbox_seq is at %s', new.seq, tg_table_name,
            coalesce(pg_sequence_last_value('relaybox.outbox_seq'), 0)
        ),
        hint = 'If the sequence was set back, run: relaybox init '
            || (select s.store from relaybox_internal.store s)
            || '. It moves the sequence on. Else insert the row again, without a seq.';
end
$$;
comment on function relaybox_internal.refuse_late_row() is
'Refuses rows of a sealed segment of the outbox.';
revoke all on function relaybox_internal.refuse_late_row() from public;

create table relaybox_internal.checked_topic (
    topic text primary key,
    outbox text not null,
    newest_version integer not null,
    first_hop text not null default 'none',
    constraint outbox_check_is_known check (outbox in ('none', 'refuse')),
    constraint newest_version_positive check (newest_version >= 1),
    constraint first_hop_check_is_known check (first_hop in ('none', 'warn', 'set_aside'))
);
comment on table relaybox_internal.checked_topic is
'Topics whose messages this store checks by their JSON Schemas: schema_checks of relaybox.yaml. Init '
'writes it.';
comment on column relaybox_internal.checked_topic.outbox is
'refuse: the outbox refuses a message that does not conform.';
comment on column relaybox_internal.checked_topic.newest_version is
'Versions are 1 to this one.';
comment on column relaybox_internal.checked_topic.first_hop is
'warn: a message that does not conform when it arrives is noted. set_aside: it is not delivered.';

create table relaybox_internal.check_function (
    function_name text primary key,
    text_digest text not null,
    body_digest text not null,
    made_at timestamptz not null default clock_timestamp()
);
comment on table relaybox_internal.check_function is
'The functions of relaybox_internal that init made of JSON Schemas.';
comment on column relaybox_internal.check_function.text_digest is
'Of the statements that made it.';
comment on column relaybox_internal.check_function.body_digest is
'Of what Postgres had of it then: another one was put there by hand.';

-- The trigger of an adopted table asks it. Not a file of init: the init of an older version would drop
-- the function, and triggers need it.
create function relaybox_internal.outbox_refusal(
    topic text, headers jsonb, payload text, payload_bytes bytea
)
returns text
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    if not exists (
        select from relaybox_internal.checked_topic t
        where t.topic = outbox_refusal.topic and t.outbox = 'refuse'
    ) then
        return null;
    end if;
    -- made by init together with the row of the topic
    return relaybox_internal.payload_problem(topic, headers, payload, payload_bytes);
end
$$;
comment on function relaybox_internal.outbox_refusal(text, jsonb, text, bytea) is
'Why the outbox refuses a message by the schema of its topic, as a text. Null: it does not.';
revoke all on function relaybox_internal.outbox_refusal(text, jsonb, text, bytea) from public;

-- Rows never change: another kind is a new epoch.
create table relaybox_internal.sender (
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
comment on table relaybox_internal.sender is
'Senders that number their messages themselves, one row for each epoch. Copied to every store '
'that their routes reach.';

-- Serves "which declarations has this hop not copied yet".
create index sender_xid on relaybox_internal.sender (xid);

create table relaybox_internal.sender_counter (
    sender text primary key,
    epoch integer not null,
    last_index bigint not null default 0
);
comment on table relaybox_internal.sender_counter is
'The newest index that next_index() gave, for each declared sender of this store. next_index() '
'locks the row until its transaction ends.';

create table relaybox.sender_role (
    sender text not null,
    role_name name not null,
    bound_at timestamptz not null default clock_timestamp(),
    bound_by text not null default session_user,
    constraint sender_role_pkey primary key (sender, role_name)
);
comment on table relaybox.sender_role is
'Which database roles may send as which sender, in a store with bind_senders: true. `relaybox '
'senders bind` writes it.';
comment on column relaybox.sender_role.sender is 'The sender.';
comment on column relaybox.sender_role.role_name is
'The role that may send as this sender, itself or by membership.';
comment on column relaybox.sender_role.bound_at is 'When it was bound.';
comment on column relaybox.sender_role.bound_by is 'The login that bound it.';

-- Serves record_put(): one row for each put that may be repeated.
create table relaybox_internal.put (
    sender text not null,
    put_key text not null,
    content text not null,
    message_count integer not null,
    put_at timestamptz not null default clock_timestamp(),
    put_by text not null default session_user,
    constraint put_pkey primary key (sender, put_key),
    constraint put_sender_is_a_plain_name check (sender ~ '^[A-Za-z0-9_.:-]{1,48}$'),
    constraint put_key_of_1_to_1000_bytes check (octet_length(put_key) between 1 and 1000),
    constraint put_content_of_1_to_100_bytes check (octet_length(content) between 1 and 100),
    constraint put_message_count_not_negative check (message_count >= 0)
);
comment on table relaybox_internal.put is
'What record_put() was told: the messages of this key are sent, and are not sent again. Kept for '
'as long as the store exists, since no message is kept that long.';
comment on column relaybox_internal.put.sender is 'Who sent. Each sender has its own keys.';
comment on column relaybox_internal.put.put_key is
'Names the put, 1 to 1,000 bytes. A task of Airflow gives DAG/TASK/MAP_INDEX/RUN.';
comment on column relaybox_internal.put.content is
'A digest of the messages: other messages under the same key are refused.';
comment on column relaybox_internal.put.message_count is 'How many messages it sent.';
comment on column relaybox_internal.put.put_at is 'When they were sent.';
comment on column relaybox_internal.put.put_by is 'The login that sent them.';

create table relaybox_internal.frame_partition (
    sender text not null,
    write_id text not null,
    partition integer not null,
    content text not null,
    message_count bigint not null,
    run uuid not null,
    sent_at timestamptz not null default clock_timestamp(),
    sent_by text not null default session_user,
    constraint frame_partition_pkey primary key (sender, write_id, partition),
    constraint frame_partition_not_negative check (partition >= -1 and message_count >= 0)
);
comment on table relaybox_internal.frame_partition is
'What writes of DataFrames have sent, partition by partition, in their order. Kept for as long as '
'the store exists, since no message is kept that long.';
comment on column relaybox_internal.frame_partition.write_id is
'Names the write: the option write_id, or the query and micro-batch of a streaming query.';
comment on column relaybox_internal.frame_partition.partition is
'From 0. -1: the write is complete, and message_count is its number of partitions.';
comment on column relaybox_internal.frame_partition.content is
'A digest of the messages: other messages of the same partition are refused.';
comment on column relaybox_internal.frame_partition.run is
'The run of the write that has sent the partition, or found it sent with the same messages.';
