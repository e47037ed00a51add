-- pre: adds only
-- Routes whose topics are those of the file and those that somebody subscribed to.
alter table relaybox.stream add column topics_by_subscription boolean not null default false;

comment on column relaybox.stream.topics_by_subscription is 'subscribing to a topic that no stream of the store carries makes it one of this stream';
