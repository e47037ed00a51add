-- post: acknowledgements need tokens
-- An acknowledgement proves that it belongs to the newest fetch of its lane; a dead letter knows whether its message was done before.

alter table relaybox.cursor
add column token text,
add column fetched_in xid8;
comment on column relaybox.cursor.token is
'of the newest fetch of the lane; fetch returns it, and ack, nack and release take it; null: none since the lane was put to a place';
comment on column relaybox.cursor.fetched_in is 'the transaction of that fetch: within it an acknowledgement needs no token';

alter table relaybox.dead_letter add column acknowledged_before boolean not null default false;
comment on column relaybox.dead_letter.acknowledged_before is
'the consumer had acknowledged the message before a replay gave it again: the letter holds up no settling';

-- A start given as a time finds its place also when the decisions before that time are compacted.
alter table relaybox.stream_log
add column compacted_decided_at timestamptz,
add column compacted_place bigint;
comment on column relaybox.stream_log.compacted_place is
'of the decisions that are compacted: the last place; the newest one is of compacted_decided_at';

-- A topic that the file has named is the file's: it goes when the file names it no more. Others came by a subscription and stay.
alter table relaybox.stream_topic
add column carried_by text not null default 'file',
add constraint carried_by_is_known check (carried_by in ('file', 'subscription', 'nobody'));
comment on column relaybox.stream_topic.carried_by is
'file: a route names it; subscription: a consumer asked for it (topics_by_subscription); nobody: the file named it once';
update relaybox.stream_topic t set carried_by = 'subscription'
from relaybox.subscription n
join relaybox.stream s on s.stream_id = n.stream_id
where s.topics_by_subscription and n.stream_id = t.stream_id and n.topic = t.topic;

alter table relaybox.hop_out add column subscribed_topics text[] not null default '{}';
comment on column relaybox.hop_out.subscribed_topics is 'of topics: those that consumers asked for, and that the file does not name';
