-- Consuming: subscriptions with lanes, each with a cursor and a lease; dead letters and replays.

create table relaybox_internal.subscription (
    subscription_id integer generated always as identity primary key,
    subscription text not null,
    stream_id integer not null references relaybox_internal.stream (stream_id),
    topic text,
    lanes integer not null default 1,
    lane_by text not null default 'sender',
    lane_hash bigint not null default hashtextextended('relaybox', 0),
    first_stream_position bigint not null,
    through_stream_position bigint,
    replay_of integer references relaybox_internal.subscription (subscription_id),
    rows_per_second integer,
    nack_limit integer not null default 5,
    crash_limit integer not null default 5,
    hold_sender boolean not null default false,
    retry_seconds integer not null default 0,
    lease_seconds integer not null default 60,
    subscribed_at timestamptz not null default clock_timestamp(),
    subscribed_by text not null default session_user,
    ended_at timestamptz,
    done_at_end bigint,
    query uuid,
    delayed text not null default 'hold',
    constraint subscription_is_a_plain_name check (subscription ~ '^[a-z0-9_.-]{1,60}$'),
    constraint lanes_1_to_64 check (lanes >= 1 and lanes <= 64),
    constraint lane_by_is_known check (lane_by in ('sender', 'key')),
    constraint subscription_limits_positive check (
        first_stream_position >= 1 and nack_limit >= 1 and crash_limit >= 1
        and retry_seconds >= 0 and lease_seconds >= 1 and rows_per_second >= 1
    ),
    constraint delayed_is_known check (delayed in ('hold', 'pass', 'ignore')),
    constraint held_senders_are_not_passed check (delayed <> 'pass' or not hold_sender),
    constraint a_replay_ends check ((replay_of is null) = (through_stream_position is null))
);
comment on table relaybox_internal.subscription is
'Every subscription, also those that have ended. To read the open ones: relaybox.subscriptions.';
comment on column relaybox_internal.subscription.topic is 'Null: every topic of the stream.';
comment on column relaybox_internal.subscription.lane_hash is
'Hash of a fixed text. If this server computes another value, it would give senders other lanes.';
comment on column relaybox_internal.subscription.through_stream_position is
'Last stream position of a second cursor. Null: not a second cursor.';
comment on column relaybox_internal.subscription.done_at_end is
'Stream position through which every lane was done when the subscription ended. Null: it has not '
'ended, or it ended before this column was added.';
comment on column relaybox_internal.subscription.query is
'The streaming query of Spark that reads by it, as its checkpoint names it. Null: a consumer does.';
comment on column relaybox_internal.subscription.delayed is
'Of a message that is not due. hold: its lane waits. pass: later ones go on, and it comes when it is '
'due. ignore: it comes at once.';

-- The name can be used again when its subscription has ended.
create unique index subscribed_once
on relaybox_internal.subscription (subscription) where ended_at is null;

-- Serves "which subscriptions is this role bound to", ended ones included, which stay for good.
create index subscription_of_name on relaybox_internal.subscription (subscription);

-- Serves the same for second cursors, and the name of the next one.
create index subscription_second_cursors
on relaybox_internal.subscription (replay_of) where replay_of is not null;

-- Serves "how many subscriptions and lanes has this role".
create index subscription_of_role
on relaybox_internal.subscription (subscribed_by) include (lanes) where ended_at is null;

-- Rows are never updated.
create table relaybox_internal.lane (
    subscription_id integer not null references relaybox_internal.subscription (subscription_id),
    lane integer not null,
    constraint lane_pkey primary key (subscription_id, lane)
);
comment on table relaybox_internal.lane is
'The lanes of open subscriptions. A transaction that changes the cursor of a lane locks its row.';

-- Rows are inserted and never updated, and looked up from the newest version: a snapshot that is
-- held for hours makes no lookup longer. Older versions are removed by the hundred.
create table relaybox_internal.cursor (
    subscription_id integer not null,
    lane integer not null,
    version bigint not null,
    done_stream_position bigint not null,
    fetched_stream_position bigint not null,
    redrive_stream_position bigint,
    fetch_count integer not null default 0,
    suspect_stream_position bigint not null default 0,
    suspect_rows integer,
    worker text,
    leased_until timestamptz,
    wait_until timestamptz,
    replay_stream_position bigint not null default 0,
    rate_from timestamptz,
    moved_at timestamptz not null default clock_timestamp(),
    token text,
    fetched_in xid8,
    first_fetched_at timestamptz,
    due_at timestamptz,
    constraint cursor_pkey primary key (subscription_id, lane, version),
    constraint done_is_not_beyond_fetched check (fetched_stream_position >= done_stream_position),
    constraint a_lease_has_a_worker check ((worker is null) = (leased_until is null))
);
comment on table relaybox_internal.cursor is
'Where each lane is: one row for each of its newest movements. The newest version counts: '
'relaybox_internal.lane_cursors.';
comment on column relaybox_internal.cursor.done_stream_position is
'Every message of the lane up to this one was acknowledged or set aside.';
comment on column relaybox_internal.cursor.fetched_stream_position is
'Messages beyond done_stream_position up to this one are fetched and not acknowledged. The next '
'fetch returns them again.';
comment on column relaybox_internal.cursor.redrive_stream_position is
'The messages fetched now are redriven dead letters up to this stream position.';
comment on column relaybox_internal.cursor.fetch_count is
'How many times these messages were fetched without ack or nack.';
comment on column relaybox_internal.cursor.suspect_stream_position is
'Up to here a fetch returns only suspect_rows messages: one of them may kill its worker.';
comment on column relaybox_internal.cursor.replay_stream_position is
'Messages up to this one were acknowledged before. A replay reads them again.';
comment on column relaybox_internal.cursor.rate_from is
'Since when a replay with rows_per_second saves up rows.';
comment on column relaybox_internal.cursor.token is
'Token of the newest fetch of the lane: fetch returns it, and ack, nack and release need it. '
'Null: no fetch since the lane was moved.';
comment on column relaybox_internal.cursor.fetched_in is
'The transaction of that fetch. Within it an acknowledgement needs no token.';
comment on column relaybox_internal.cursor.first_fetched_at is
'When these messages were fetched for the first time. A smaller fetch of them keeps it.';
comment on column relaybox_internal.cursor.due_at is
'When the message after done_stream_position is due, if the newest fetch found that it is not: the '
'lane is held until then.';

create table relaybox_internal.failed_attempt (
    subscription_id integer not null references relaybox_internal.subscription (subscription_id),
    lane integer not null,
    stream_position bigint not null,
    attempts integer not null,
    first_at timestamptz not null default clock_timestamp(),
    last_at timestamptz not null default clock_timestamp(),
    last_by text not null,
    reason text not null,
    constraint failed_attempt_pkey primary key (subscription_id, lane, stream_position)
);
comment on table relaybox_internal.failed_attempt is
'Messages that were refused and will be fetched again.';
comment on column relaybox_internal.failed_attempt.reason is
'The reason that the last nack gave. It becomes the detail of the dead letter.';

create table relaybox_internal.endpoint_failure (
    subscription_id integer primary key references relaybox_internal.subscription (subscription_id),
    endpoint text not null,
    failing_since timestamptz not null default clock_timestamp(),
    failure_count bigint not null default 1,
    failed_at timestamptz not null default clock_timestamp(),
    pause_seconds double precision not null,
    reason text not null,
    failed_for text not null default session_user,
    constraint endpoint_failure_has_failed check (failure_count >= 1 and pause_seconds >= 0)
);
comment on table relaybox_internal.endpoint_failure is
'Endpoints that do not take the messages of a subscription: of a webhook, or of Kafka. The messages '
'wait, and no attempt is counted against them. The row goes when a message is delivered.';
comment on column relaybox_internal.endpoint_failure.endpoint is
'What the worker calls it: a URL without its query, or brokers and topic.';
comment on column relaybox_internal.endpoint_failure.failing_since is
'The first failure since a message was delivered.';
comment on column relaybox_internal.endpoint_failure.failure_count is
'Failures since then, one after the other.';
comment on column relaybox_internal.endpoint_failure.failed_at is 'The newest failure.';
comment on column relaybox_internal.endpoint_failure.pause_seconds is
'From the newest failure to the next attempt.';
comment on column relaybox_internal.endpoint_failure.reason is 'Of the newest failure.';
comment on column relaybox_internal.endpoint_failure.failed_for is 'The login of its worker.';

-- The message itself stays in its log, under the rights of the log.
create table relaybox_internal.dead_letter (
    stream_id integer not null references relaybox_internal.stream (stream_id),
    log_id integer not null references relaybox_internal.hop_in (log_id),
    log_position bigint not null,
    reason text not null,
    detail text,
    first_at timestamptz not null default clock_timestamp(),
    dead_letter_id bigint generated always as identity primary key,
    subscription_id integer references relaybox_internal.subscription (subscription_id),
    lane integer,
    stream_position bigint,
    sender text,
    attempts integer not null default 1,
    last_at timestamptz not null default clock_timestamp(),
    last_by text not null default session_user,
    state text not null default 'open',
    resolved_at timestamptz,
    resolved_by text,
    resolved_reason text,
    acknowledged_before boolean not null default false,
    given_ahead boolean not null default false,
    due_at timestamptz,
    constraint state_is_known check (
        state in ('open', 'redriving', 'redriven', 'dropped', 'delayed')
    ),
    constraint dead_letter_of_a_lane check (
        num_nulls(subscription_id, lane, stream_position, sender) in (0, 4)
    )
);
comment on table relaybox_internal.dead_letter is
'Messages that a stream or a subscription set aside. To read them: relaybox.dead_letters.';
comment on column relaybox_internal.dead_letter.reason is
'One word. Of a subscription: refused (by nack), killed_its_worker, expired, waits_behind, or delayed '
'(not due when its lane passed it). Of a stream: why it did not deliver the message.';
comment on column relaybox_internal.dead_letter.detail is
'A text. For refused: the reason that the last nack gave.';
comment on column relaybox_internal.dead_letter.first_at is
'Of a subscription: when the message was fetched first, if that is recorded; a message that waits '
'behind another one: when it was set aside. Of a stream: when it was set aside.';
comment on column relaybox_internal.dead_letter.acknowledged_before is
'The consumer had acknowledged the message before a replay returned it again. The dead letter '
'does not delay settling.';
comment on column relaybox_internal.dead_letter.given_ahead is
'It was redriven and acknowledged before the cursor of its lane reached it. This pass of the '
'cursor does not return it again.';
comment on column relaybox_internal.dead_letter.due_at is
'When the message is due, of one that was delayed and passed. Until then its state is delayed.';

create unique index dead_letter_of_a_stream
on relaybox_internal.dead_letter (log_id, log_position) where subscription_id is null;

-- Serves fetch: which messages of a range are set aside.
create unique index dead_letter_of_a_subscription
on relaybox_internal.dead_letter (subscription_id, stream_position);

-- Serves fetch: whether a dead letter is to be redriven, and which senders have one.
create index dead_letter_unresolved
on relaybox_internal.dead_letter (subscription_id, lane, stream_position)
where state in ('open', 'redriving');

-- Serves fetch: which passed messages are due now, and when the next one is.
create index dead_letter_delayed
on relaybox_internal.dead_letter (subscription_id, lane, due_at) where state = 'delayed';

create index dead_letter_stream on relaybox_internal.dead_letter (stream_id);

create table relaybox_internal.replay_range (
    replay_range_id bigint generated always as identity primary key,
    subscription_id integer not null references relaybox_internal.subscription (subscription_id),
    first_stream_position bigint not null,
    last_stream_position bigint not null,
    asked_by text[] not null,
    reason text not null,
    begun_at timestamptz not null default clock_timestamp(),
    done_at timestamptz,
    constraint replay_range_not_empty check (
        last_stream_position >= first_stream_position and first_stream_position >= 1
    ),
    constraint somebody_asked_for_it check (cardinality(asked_by) >= 1)
);
comment on table relaybox_internal.replay_range is
'Ranges that second cursors read, one after the other. To read them: relaybox.replay_ranges.';
comment on column relaybox_internal.replay_range.subscription_id is 'The second cursor.';
comment on column relaybox_internal.replay_range.asked_by is
'Who asked for the range, and who joined: logins, or runs of Airflow and how often each was '
'cleared.';
comment on column relaybox_internal.replay_range.done_at is
'Written when the next range of the cursor begins. The lanes tell how far the newest range is.';

-- Serves "which range does this cursor read now" and "was this range read for this request".
create index replay_range_of_a_cursor
on relaybox_internal.replay_range (subscription_id, replay_range_id);

-- A transaction that subscribes locks the row of its role, so that no role exceeds its quota.
create table relaybox_internal.consumer_quota (
    role_name name primary key,
    subscriptions integer,
    lanes integer,
    checked_at timestamptz not null default clock_timestamp(),
    topics integer,
    constraint quota_not_negative check (subscriptions >= 0 and lanes >= 0),
    constraint topics_not_negative check (topics >= 0)
);
comment on table relaybox_internal.consumer_quota is
'Database roles that have subscriptions, or a quota of their own.';
comment on column relaybox_internal.consumer_quota.subscriptions is
'Null: store.subscriptions_per_role applies.';
comment on column relaybox_internal.consumer_quota.lanes is
'Null: store.lanes_per_role applies.';
comment on column relaybox_internal.consumer_quota.topics is
'Null: store.topics_per_role applies.';

create table relaybox_internal.consumer_action (
    action_id bigint generated always as identity primary key,
    subscription text not null,
    action text not null,
    detail jsonb not null,
    reason text,
    done_at timestamptz not null default clock_timestamp(),
    done_by text not null default session_user,
    subscription_id integer,
    constraint action_is_known check (
        action in (
            'subscribe', 'unsubscribe', 'replay', 'cancel_replay', 'redrive', 'drop',
            'fetch_one_at_a_time', 'change_delayed'
        )
    )
);
comment on table relaybox_internal.consumer_action is
'What people and consumers did to subscriptions, written in the transaction that did it. To read '
'it: relaybox.consumer_action.';
comment on column relaybox_internal.consumer_action.action_id is 'Number of the action.';
comment on column relaybox_internal.consumer_action.subscription is
'The subscription; for a dead letter of a stream: the stream.';
comment on column relaybox_internal.consumer_action.action is
'subscribe, unsubscribe, replay, cancel_replay, redrive, drop, fetch_one_at_a_time or change_delayed.';
comment on column relaybox_internal.consumer_action.detail is
'The values of the action; on_behalf_of: the person for whom an operator''s login acted.';
comment on column relaybox_internal.consumer_action.reason is 'Why, as given.';
comment on column relaybox_internal.consumer_action.done_at is 'When.';
comment on column relaybox_internal.consumer_action.done_by is 'The login.';
comment on column relaybox_internal.consumer_action.subscription_id is
'The subscription. Null: a dead letter of a stream, or recorded before this column was added.';

create table relaybox_internal.subscription_role (
    subscription text not null,
    role_name name not null,
    bound_at timestamptz not null default clock_timestamp(),
    bound_by text not null default session_user,
    constraint subscription_role_pkey primary key (subscription, role_name),
    constraint bound_subscription_is_a_plain_name check (subscription ~ '^[a-z0-9_.-]{1,60}$')
);
comment on table relaybox_internal.subscription_role is
'Which database roles may use which subscription, in a store with bind_subscriptions: true. '
'`relaybox subscriptions bind` writes it.';
comment on column relaybox_internal.subscription_role.subscription is
'Name of the subscription, which need not exist yet. Its second cursors belong to it.';
comment on column relaybox_internal.subscription_role.role_name is
'The role that may use the subscription, itself or by membership.';
comment on column relaybox_internal.subscription_role.bound_at is
'When it was bound. Of a subscription that ended before, the role sees nothing.';
comment on column relaybox_internal.subscription_role.bound_by is 'The login that bound it.';

create table relaybox_internal.topic_role (
    topic text not null,
    role_name name not null,
    granted_at timestamptz not null default clock_timestamp(),
    granted_by text not null default session_user,
    constraint topic_role_pkey primary key (topic, role_name),
    constraint granted_topic_is_a_plain_name check (topic = '*' or topic ~ '^[a-z0-9_.-]{1,48}$')
);
comment on table relaybox_internal.topic_role is
'Which database roles may read messages of which topic, in a store with bind_topics: true. '
'`relaybox topics grant` writes it.';
comment on column relaybox_internal.topic_role.topic is
'The topic, which need not exist yet; *: every topic.';
comment on column relaybox_internal.topic_role.role_name is
'The role that may read the topic, itself or by membership.';
comment on column relaybox_internal.topic_role.granted_at is 'When it was granted.';
comment on column relaybox_internal.topic_role.granted_by is 'The login that granted it.';

create table relaybox_internal.stream_role (
    stream text not null,
    role_name name not null,
    bound_at timestamptz not null default clock_timestamp(),
    bound_by text not null default session_user,
    constraint stream_role_pkey primary key (stream, role_name),
    constraint bound_stream_is_a_plain_name check (stream ~ '^[a-z][a-z0-9_-]{0,29}$')
);
comment on table relaybox_internal.stream_role is
'Which database roles are operators of which stream, in a store with bind_subscriptions: true. '
'`relaybox operators bind` writes it.';
comment on column relaybox_internal.stream_role.stream is
'Name of the stream, which need not exist yet. Of a route it is the name of the route, or `stream`.';
comment on column relaybox_internal.stream_role.role_name is
'The role, itself or by membership. It has an effect for members of relaybox_operator.';
comment on column relaybox_internal.stream_role.bound_at is 'When it was bound.';
comment on column relaybox_internal.stream_role.bound_by is 'The login that bound it.';
