-- What producers reach: the outbox, its sequence and the binding of senders.

comment on schema relaybox is 'What producers, consumers and operators use of Relaybox. Functions: \df+ relaybox.*, tables and views: \d+ relaybox.*';

comment on table relaybox.outbox is 'Insert a message here, in the transaction of your own work: it is sent if that commits. Rows are never changed.';
comment on column relaybox.outbox.seq is 'Order of insertion, given by the store.';
comment on column relaybox.outbox.xid is 'The transaction that inserted the row, given by the store.';
comment on column relaybox.outbox.message_id is 'Optional; made if absent. Give it again when you repeat an insert whose outcome is unknown.';
comment on column relaybox.outbox.index is
'Optional, from 1: number of the message for a sender that numbers its messages itself, such as next_index() gives.';
comment on column relaybox.outbox.sent_at is 'When the row was inserted, given by the store.';
comment on column relaybox.outbox.epoch is 'Of the numbering, 1 if absent; sender_epoch() gives it.';
comment on column relaybox.outbox.topic is '1 to 48 of a-z 0-9 _ . - Routes choose messages by it.';
comment on column relaybox.outbox.sender is 'Who sends, 1 to 48 of A-Z a-z 0-9 _ . : -';
comment on column relaybox.outbox.key is 'Optional, at most 200 characters. Subscriptions with lane_by key keep the order of a key.';
comment on column relaybox.outbox.headers is 'Optional JSON object, at most 64 KiB.';
comment on column relaybox.outbox.payload is 'Text, at most 16 MiB. Exactly one of payload and payload_bytes.';
comment on column relaybox.outbox.payload_bytes is 'Bytes, at most 16 MiB. Exactly one of payload and payload_bytes.';
comment on column relaybox.outbox.clock is
'Optional JSON object, at most 64 KiB and 1,000 senders: what the sender had received when it sent, {"sender": index} or {"sender": [epoch, index]}.';

comment on sequence relaybox.outbox_seq is 'Numbers the rows of relaybox.outbox.';

comment on function relaybox.new_message_id() is
'Returns a new message id: a UUID whose first bits are the time, so that ids of the same time are near each other in an index.';

comment on table relaybox.sender_role is
'Which database roles may send as which sender, in a store with bind_senders: true. `relaybox senders bind` writes it.';
comment on column relaybox.sender_role.sender is 'The sender.';
comment on column relaybox.sender_role.role_name is 'The role that may send as this sender, itself or by membership.';
comment on column relaybox.sender_role.bound_at is 'When it was bound.';
comment on column relaybox.sender_role.bound_by is 'The login that bound it.';
