-- An acknowledgement proves that it belongs to the newest fetch of its lane.

alter table relaybox.cursor
add column token text,
add column fetched_in xid8;
comment on column relaybox.cursor.token is
'of the newest fetch of the lane; fetch returns it, and ack, nack and release take it; null: none since the lane was put to a place';
comment on column relaybox.cursor.fetched_in is 'the transaction of that fetch: within it an acknowledgement needs no token';
