-- What a message says, as one md5: equal in two stores if and only if every column but the position is. Inlined.
-- Over the binary form that COPY sends: the same in every version and under every setting, with null apart from '' and
-- column from column; no hashtext, no text form of a time. A third of the time of the row's text form.
create or replace function relaybox_internal.message_hash(
    message_id uuid, topic text, sender text, epoch integer, index bigint, key text, payload text, payload_bytes bytea,
    headers jsonb, clock jsonb, sent_at timestamptz
)
returns text
language sql stable
as $$
    select md5(record_send(row(message_id, topic, sender, epoch, index, key, payload, payload_bytes, headers, clock, sent_at)))
$$;
