-- The topics that each stream carries or carried, by whom: as stream_topic says, and those that consumers of this store asked for.
create or replace view relaybox_internal.known_topics as
with requested as (
    select distinct stream_id, topic from relaybox_internal.topic_request
)

select
    t.stream_id, t.topic,
    case when t.carried_by = 'nobody' and r.topic is not null then 'subscription' else t.carried_by end as carried_by
from relaybox_internal.stream_topic t
left join requested r on r.stream_id = t.stream_id and r.topic = t.topic
union all
select r.stream_id, r.topic, 'subscription' as carried_by
from requested r
left join relaybox_internal.stream_topic t on t.stream_id = r.stream_id and t.topic = r.topic
where t.topic is null;

comment on view relaybox_internal.known_topics is
'The topics of each stream, with those that consumers of this store asked for.';
