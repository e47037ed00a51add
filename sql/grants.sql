-- Who may do what. Applied whole at every init, after functions and views.
-- Producers write the columns that are theirs; seq and xid are not. Nobody may change or remove a message.
revoke all on schema relaybox from public;
revoke all on all tables in schema relaybox from public;
revoke all on all functions in schema relaybox from public;

grant usage on schema relaybox to relaybox_producer, relaybox_consumer;
grant usage on sequence relaybox.outbox_seq to relaybox_producer;
grant execute on function relaybox.new_message_id() to relaybox_producer;
grant insert (message_id, topic, sender, epoch, index, key, headers, payload, payload_bytes, clock) on relaybox.outbox to relaybox_producer;
grant select (message_id) on relaybox.outbox to relaybox_producer;
grant execute on function relaybox.declare_sender(text, text), relaybox.new_epoch(text, text) to relaybox_producer;
grant execute on function relaybox.sender_epoch(text), relaybox.next_index(text) to relaybox_producer;
grant select on relaybox.sender_role to relaybox_producer;
grant select on relaybox.inbox to relaybox_consumer;
grant execute on function relaybox.read_log(text, bigint, integer) to relaybox_consumer;
