-- pre: adds a column
-- A message may say until when it is wanted: the header relaybox-expires-at.

alter table relaybox_internal.stream add column has_expiry boolean not null default false;
comment on column relaybox_internal.stream.has_expiry is
'A message with the header relaybox-expires-at was delivered: fetch looks for expired ones.';
comment on column relaybox_internal.dead_letter.reason is
'One word. Of a subscription: refused (by nack), killed_its_worker, expired or waits_behind. Of a '
'stream: why it did not deliver the message.';
