-- post: a column goes
-- What consumers ask for has rows of its own, which nobody else writes: a subscribe that does not commit stops neither hops nor init.

create table relaybox.topic_request (
    stream_id integer not null references relaybox.stream (stream_id) on delete cascade,
    topic text not null,
    requested_by text not null,
    requested_at timestamptz not null default clock_timestamp(),
    constraint topic_request_pkey primary key (stream_id, topic, requested_by)
);
comment on table relaybox.topic_request is 'topics that consumers subscribed to where no stream of the store carried them (topics_by_subscription)';
comment on column relaybox.topic_request.requested_by is 'the login; the topic counts for its quota';

-- Serves "how many topics has this role asked for".
create index topic_request_requested_by on relaybox.topic_request (requested_by);

insert into relaybox.topic_request (stream_id, topic, requested_by)
select t.stream_id, t.topic, t.asked_by
from relaybox.stream_topic t
where t.carried_by = 'subscription' and t.asked_by is not null;
delete from relaybox.stream_topic t
where t.carried_by = 'subscription' and t.asked_by is not null;
alter table relaybox.stream_topic drop column asked_by;
comment on column relaybox.stream_topic.carried_by is
'file: a route names it; subscription: the store downstream asked for it (topics_by_subscription); nobody: the file named it once. '
'What consumers of this store asked for: relaybox.topic_request';
