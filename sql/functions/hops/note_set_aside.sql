-- Notes what the store before set aside (list_set_aside()), at its positions in this log: `shift` higher
-- than in the log that was read. Idempotent. In the transaction that publishes the batch, before it.
create or replace function relaybox_internal.note_set_aside(log_id_ integer, shift bigint, messages text) returns void
language sql volatile
as $$
    insert into relaybox_internal.nonconforming_message (log_id, log_position, topic, is_set_aside, problem)
    select log_id_, (m.value ->> 0)::bigint + shift, m.value ->> 1, true, m.value ->> 2
    from json_array_elements(messages::json) m
    on conflict (log_id, log_position) do nothing
$$;
