-- pre: adds only
-- The outbox: producers append to it inside their own transactions and do nothing else.
-- CACHE 1 keeps seq in insertion order across sessions: with a larger cache a third of all
-- cause-and-effect pairs was inverted.

create sequence relaybox.outbox_seq as bigint cache 1;

-- Time-ordered ids keep the index on message_id append-mostly. Postgres 18 makes them itself;
-- before it, the first 48 bits of a random id are replaced by the time in milliseconds.
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
                placing substring(int8send((extract(epoch from clock_timestamp()) * 1000)::bigint) from 3)
                from 1 for 6
            ), 52, 1), 53, 1), 'hex'
        )::uuid;
    end if;
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
    constraint outbox_pkey primary key (seq),
    constraint topic_is_a_plain_name check (topic ~ '^[a-z0-9_.-]{1,48}$'),
    constraint sender_is_a_plain_name check (sender ~ '^[A-Za-z0-9_.:-]{1,48}$'),
    constraint key_at_most_200_characters check (length(key) <= 200),
    constraint index_and_epoch_positive check (index >= 1 and epoch >= 1),
    constraint message_has_exactly_one_payload check (num_nonnulls(payload, payload_bytes) = 1),
    constraint payload_at_most_16_mib check (octet_length(payload) <= 16777216 and octet_length(payload_bytes) <= 16777216),
    constraint headers_are_an_object check (jsonb_typeof(headers) = 'object'),
    constraint headers_at_most_64_kib check (octet_length(headers::text) <= 65536)
) partition by range (seq);

-- Serves the plan of a batch (which rows became visible between two snapshots) and the poll for new messages.
create index outbox_xid on relaybox.outbox (xid);

-- Serves where(message_id).
create index outbox_message_id on relaybox.outbox (message_id);

-- A producer never fails for want of a segment: what no segment covers lands here, and the
-- next ensure_outbox_segments() turns it into a segment of its own.
create table relaybox.outbox_overflow partition of relaybox.outbox default;
