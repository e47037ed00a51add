-- Makes a durable subscription to a stream, or to one topic of the stream that carries it. Locks
-- the stream's row FOR KEY SHARE, so that retention waits for it, and last the row of the login's
-- quota (require_quota()).
create or replace function relaybox.subscribe(
    subscription text, source text, start text default 'earliest',
    lanes integer default 1, lane_by text default 'sender',
    nack_limit integer default 5, crash_limit integer default 5,
    hold_sender boolean default false,
    retry_seconds integer default 0, lease_seconds integer default 60, delayed text default 'hold'
)
returns bigint
language plpgsql volatile security definer
set search_path = pg_catalog, relaybox, pg_temp
set row_security = off
as $$
declare
    stream_id_ integer;
    one_topic text;
    is_new_topic boolean;
    first_stream_position_ bigint;
    made integer;
begin
    perform relaybox_internal.require_settings(
        subscription, lanes, lane_by, nack_limit, crash_limit, hold_sender, retry_seconds,
        lease_seconds, delayed
    );
    perform relaybox_internal.refuse_borrowed_session();
    perform relaybox_internal.require_subscription_role(subscription);
    perform relaybox_internal.require_source_topics(source)
    from relaybox_internal.store s where s.bind_topics;
    select s.stream_id, s.one_topic, s.is_new_topic into stream_id_, one_topic, is_new_topic
    from relaybox_internal.find_source(source) s;
    perform from relaybox_internal.stream s where s.stream_id = stream_id_ for key share;
    first_stream_position_ := relaybox_internal.start_stream_position(stream_id_, start);
    begin
        insert into relaybox_internal.subscription (
            subscription, stream_id, topic, lanes, lane_by, first_stream_position,
            nack_limit, crash_limit, hold_sender, retry_seconds, lease_seconds, delayed
        )
        values (
            subscribe.subscription, stream_id_, one_topic, subscribe.lanes, subscribe.lane_by,
            first_stream_position_, subscribe.nack_limit, subscribe.crash_limit,
            subscribe.hold_sender, subscribe.retry_seconds, subscribe.lease_seconds,
            subscribe.delayed
        )
        returning subscription_id into made;
    exception when unique_violation then
        raise exception using errcode = 'RB030',
            message = format(
                'already subscribed: subscription %s exists in this store', subscription
            ),
            hint = format(
                'Go on with select * from relaybox.fetch(%L), or unsubscribe it first.',
                subscription
            );
    end;
    perform relaybox_internal.require_approval_to_go_back(
        subscription, made, stream_id_, first_stream_position_
    );
    perform relaybox_internal.require_quota(subscription, is_new_topic);
    perform relaybox_internal.open_lanes(made, lanes, first_stream_position_);
    -- workers of the subscription of this name that has ended may rest, and listen to its stream
    perform relaybox_internal.wake_consumers(ended.stream_id)
    from (
        select s.stream_id from relaybox_internal.subscription s
        where s.subscription = subscribe.subscription and s.ended_at is not null
        order by s.subscription_id desc
        limit 1
    ) ended;
    perform relaybox_internal.record_action(
        made, subscription, 'subscribe', null, jsonb_build_object(
            'source', source, 'start', start,
            'first_stream_position', first_stream_position_, 'lanes', lanes
        )
    );
    return first_stream_position_;
end
$$;

comment on function relaybox.subscribe(
    text, text, text, integer, text, integer, integer, boolean, integer, integer, text
) is
'Makes a durable subscription. relaybox.fetch reads from it.
`subscription`: its new name, 1 to 60 of a-z 0-9 _ . -
`source`: a stream of this store, or a topic. A new topic is added to the stream of this store
    whose topics come by subscription, if there is exactly one.
`start`: earliest (default), latest, a stream position, or a time: the first message that was
    delivered here at that time or later.
`lanes`: number of workers that can read side by side, 1 (default) to 64.
`lane_by`: sender (default) or key: messages with the same value have the same lane and keep
    their order.
`nack_limit`: number of nacks after which a message becomes a dead letter (5).
`crash_limit`: number of fetches without ack or nack after which messages are fetched in smaller
    pieces; the one that is alone becomes a dead letter (5).
`hold_sender`: true: later messages of a sender wait behind its dead letter. Default: false.
`retry_seconds`: how long a lane waits after a nack (0).
`lease_seconds`: how long a fetch belongs to its worker (60).
`delayed`: of a message that is not due (header relaybox-deliver-after). hold (default): its lane waits
    until it is. pass: later ones go on, and it comes when it is due; not with hold_sender. ignore: it
    comes at once.
Returns the first stream position that the subscription reads.
Errors: RB030 (the name is in use), RB032 (no such stream or topic), RB034 (the start is no longer
    kept), RB036 (a value that is not allowed), RB038 (the start is detached), RB039 (the quota of
    the login is used up), RB040 (the name is bound to other roles), RB041 (a topic that the
    role may not read), RB042 (the start is before what
    an ended subscription of the name had done, which needs an approval).';
