-- Positions of a log whose plan its source lost, hashed as adopted_content() hashes what the source has of them.
create or replace function relaybox.adopted_rows(log_id integer, first bigint, last bigint)
returns table ("position" bigint, message_id uuid, sender text, message_hash text)
language sql stable
as $$
    select
        l.position, l.message_id, l.sender,
        relaybox.message_hash(
            l.message_id, l.topic, l.sender, l.epoch, case when l.epoch > 0 then l.index end,
            l.key, l.payload, l.payload_bytes, l.headers, l.clock, l.sent_at
        )
    from relaybox.log l
    where l.hop_id = log_id and l.position >= first and l.position <= last
$$;
