-- pre: adds only
-- How many topics a database role may have a stream carry by subscribing to them. They stay when its subscriptions end.

alter table relaybox.store add column topics_per_role integer not null default 100;
alter table relaybox.store add constraint topics_per_role_not_negative check (topics_per_role >= 0);
alter table relaybox.consumer_quota add column topics integer;
alter table relaybox.consumer_quota add constraint topics_not_negative check (topics >= 0);
comment on column relaybox.consumer_quota.topics is 'null: as relaybox.store says for every role';

alter table relaybox.stream_topic add column asked_by text;
comment on column relaybox.stream_topic.asked_by is 'carried_by subscription: the login that asked first; null: the store downstream asked';

-- Serves "how many topics has this role asked for".
create index stream_topic_asked_by on relaybox.stream_topic (asked_by) where carried_by = 'subscription';
update relaybox.stream_topic t
set asked_by = first.subscribed_by
from (
    select distinct on (n.stream_id, n.topic) n.stream_id, n.topic, n.subscribed_by
    from relaybox.subscription n
    order by n.stream_id, n.topic, n.subscription_id
) first
where first.stream_id = t.stream_id and first.topic = t.topic and t.carried_by = 'subscription';
