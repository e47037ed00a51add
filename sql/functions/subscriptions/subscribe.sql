-- Makes a durable subscription to a stream, or to one topic of the stream that carries it; returns the first stream position it will read.
-- A topic that is not carried is added to the store's stream whose topics come by subscription, if there is just one.
-- start: earliest, latest, a stream position, or a time. Holds the stream's row FOR KEY SHARE, so that retention waits for it.
-- Raises RB030 already subscribed, RB032 no such stream or topic, RB034 a stream position no longer kept, RB036 a start or a setting that is none,
-- RB039 the quota of the session's role is used up; its row is locked last (require_quota).
create or replace function relaybox.subscribe(
    subscription text, source text, start text default 'earliest', lanes integer default 1, lane_by text default 'sender',
    nack_limit integer default 5, crash_limit integer default 5, hold_sender boolean default false,
    retry_seconds integer default 0, lease_seconds integer default 60
)
returns bigint
language plpgsql volatile security definer
set search_path = pg_catalog, relaybox, pg_temp
as $$
declare
    found_streams integer[];
    stream_id_ integer;
    first_stream_position_ bigint;
    made integer;
    asks_for_topic boolean := false;
begin
    perform relaybox_internal.require_settings(subscription, lanes, lane_by, nack_limit, crash_limit, hold_sender, retry_seconds, lease_seconds);
    select array_agg(s.stream_id) into found_streams from relaybox_internal.stream s where s.stream = source;
    if found_streams is null then
        select array_agg(t.stream_id) into found_streams
        from relaybox_internal.known_topics t join relaybox_internal.stream s using (stream_id)
        where t.topic = source and not (s.topics_by_subscription and t.carried_by = 'nobody');
    end if;
    if found_streams is null and source ~ '^[a-z0-9_.-]{1,48}$' then
        select array_agg(s.stream_id) into found_streams from relaybox_internal.stream s where s.topics_by_subscription;
        if cardinality(found_streams) = 1 then
            asks_for_topic := relaybox_internal.request_topic(found_streams[1], source);
            raise notice 'topic % is new; it is carried once its store of origin knows it. If it is mistyped: docs/consuming.md, "A mistyped topic"',
            source;
        else
            found_streams := null;
        end if;
    end if;
    if found_streams is null or cardinality(found_streams) > 1 then
        raise exception using errcode = 'RB032',
            message = format(
                case
                    when found_streams is not null then 'topic %s is carried by several streams; name one'
                    when source !~ '^[a-z0-9_.-]{1,48}$' and exists (select from relaybox_internal.stream s where s.topics_by_subscription)
                        then 'there is no stream and no topic %L in this store, and no new topic can have this name: it must be 1 to 48 of a-z ' ||
                            '0-9 _ . -'
                    else 'there is no stream and no topic %s in this store'
                end,
                coalesce(left(source, 70), 'null')
            ),
            hint = 'Streams here: ' || coalesce((
                select string_agg(format('%s (%s)', s.stream, coalesce((
                    select string_agg(t.topic, ', ' order by t.topic) from relaybox_internal.known_topics t where t.stream_id = s.stream_id
                ), '')), ', ' order by s.stream) from relaybox_internal.stream s
            ), 'none') || '.';
    end if;
    stream_id_ := found_streams[1];
    perform from relaybox_internal.stream s where s.stream_id = stream_id_ for key share;
    first_stream_position_ := relaybox_internal.start_stream_position(stream_id_, start);
    begin
        insert into relaybox_internal.subscription (
            subscription, stream_id, topic, lanes, lane_by, first_stream_position, nack_limit, crash_limit, hold_sender, retry_seconds, lease_seconds
        )
        values (
            subscribe.subscription, stream_id_,
            case when not exists (select from relaybox_internal.stream s where s.stream = source) then source end,
            subscribe.lanes, subscribe.lane_by, first_stream_position_, subscribe.nack_limit, subscribe.crash_limit, subscribe.hold_sender,
            subscribe.retry_seconds, subscribe.lease_seconds
        )
        returning subscription_id into made;
    exception when unique_violation then
        raise exception using errcode = 'RB030', message = format('already subscribed: subscription %s exists in this store', subscription),
            hint = format('Go on with select * from relaybox.fetch(%L), or unsubscribe it first.', subscription);
    end;
    perform relaybox_internal.require_quota(subscription, asks_for_topic);
    perform relaybox_internal.open_lanes(made, lanes, first_stream_position_);
    perform relaybox_internal.record_action(
        subscription, 'subscribe', null, jsonb_build_object('source', source, 'start', start, 'first_stream_position', first_stream_position_,
        'lanes', lanes)
    );
    return first_stream_position_;
end
$$;

comment on function relaybox.subscribe(text, text, text, integer, text, integer, integer, boolean, integer, integer) is
'Makes a durable subscription. relaybox.fetch reads from it.
`subscription`: its new name, 1 to 60 of a-z 0-9 _ . -
`source`: a stream of this store, or a topic of one.
`start`: earliest (default), latest, a stream_position, or a time: the first message that was delivered here at that time or later.
`lanes`: how many workers may read side by side, 1 (default) to 64.
`lane_by`: sender (default) or key: messages with the same value have the same lane and keep their order.
`nack_limit`, `crash_limit`: after this number of nacks, or of fetches without ack or nack, a message becomes a dead dead_letter_id (5, 5).
`hold_sender`: true: later messages of a sender wait behind its dead dead_letter_id. Default: false.
`retry_seconds`: how long a lane waits after a nack (0). `lease_seconds`: how long a fetch belongs to its worker (60).
Returns the first stream_position that the subscription reads.
Errors: RB030 (the name is in use), RB032 (no such stream or topic), RB034 (the start is no longer kept), RB036 (a value that is not
allowed), RB038 (the start is detached), RB039 (the quota of the login is used up).';
