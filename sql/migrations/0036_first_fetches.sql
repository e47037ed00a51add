-- pre: adds only
-- A message that kills its worker is set aside with the time when it was fetched first, not when it was set aside.

alter table relaybox.cursor add column first_fetched_at timestamptz;
comment on column relaybox.cursor.first_fetched_at is 'when what is fetched now was fetched first; a fetch that is cut smaller keeps it';
comment on column relaybox.dead_letter.reason is
'the kind, one word: of a subscription refused (by nack), killed_its_worker or waits_behind; of a stream why it was not delivered';
comment on column relaybox.dead_letter.detail is 'in words: for refused, what the last nack gave as its reason';
comment on column relaybox.dead_letter.first_at is
'of a subscription: when the message was fetched first, as far as known, or set aside if it waits behind another; of a stream: when it was set aside';
comment on column relaybox.failed_attempt.reason is 'what the last nack gave; the detail of the dead letter that this may become';
