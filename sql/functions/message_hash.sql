-- What a message says, as one md5: equal in two stores if and only if every column but the position is. Inlined.
-- Independent of version and settings: no hashtext, no text form of a time; row() keeps null apart from '' and column from column.
create or replace function relaybox.message_hash(
    message_id uuid, topic text, sender text, epoch integer, index bigint, key text, payload text, payload_bytes bytea,
    headers jsonb, sent_at timestamptz
)
returns text
language sql immutable
as $$
    select md5(row(
        message_id, topic, sender, epoch, index, key, payload, md5(payload_bytes), headers::text,
        (extract(epoch from sent_at) * 1000000)::bigint
    )::text)
$$;
