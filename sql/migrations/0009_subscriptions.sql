-- post: the key of dead letters changes
-- Consumers: durable subscriptions with lanes, each with a cursor and a lease; replays, dead letters of consumers, audit.

-- Retention raises it before it drops what is below; nothing below it is promised any more.
alter table relaybox.stream add column first_kept_place bigint not null default 1;
alter table relaybox.stream add constraint first_kept_place_positive check (first_kept_place >= 1);

-- Serves "up to which place was delivered before this time".
create index decision_decided_at on relaybox.decision (hop_id, decided_at);

-- Serves "when was the message at this place delivered".
create index decision_last_place on relaybox.decision (hop_id, last_place);

-- Which topics a stream carries, as its routes say.
create table relaybox.stream_topic (
    stream_id integer not null references relaybox.stream (stream_id) on delete cascade,
    topic text not null,
    constraint stream_topic_pkey primary key (stream_id, topic)
);

create table relaybox.subscription (
    subscription_id integer generated always as identity primary key,
    subscription text not null,
    stream_id integer not null references relaybox.stream (stream_id),
    topic text,
    lanes integer not null default 1,
    lane_by text not null default 'sender',
    lane_hash bigint not null default hashtextextended('relaybox', 0),
    first_place bigint not null,
    through_place bigint,
    replay_of integer references relaybox.subscription (subscription_id),
    rows_per_second integer,
    nack_limit integer not null default 5,
    crash_limit integer not null default 5,
    hold_sender boolean not null default false,
    retry_seconds integer not null default 0,
    lease_seconds integer not null default 60,
    subscribed_at timestamptz not null default clock_timestamp(),
    subscribed_by text not null default session_user,
    ended_at timestamptz,
    constraint subscription_is_a_plain_name check (subscription ~ '^[a-z0-9_.-]{1,60}$'),
    constraint lanes_1_to_64 check (lanes between 1 and 64),
    constraint lane_by_is_known check (lane_by in ('sender', 'key')),
    constraint subscription_limits_positive check (
        first_place >= 1 and nack_limit >= 1 and crash_limit >= 1 and retry_seconds >= 0 and lease_seconds >= 1 and rows_per_second >= 1
    ),
    constraint a_replay_ends check ((replay_of is null) = (through_place is null))
);

comment on column relaybox.subscription.topic is 'null: every topic of the stream';
comment on column relaybox.subscription.lane_hash is 'of a fixed text: another value means that this server would give senders other lanes';
comment on column relaybox.subscription.through_place is 'a second cursor, for a range: its last place';

-- A name is free again when its subscription has ended.
create unique index subscribed_once on relaybox.subscription (subscription) where ended_at is null;

-- One row per lane, locked by whoever changes its cursor. Never updated.
create table relaybox.lane (
    subscription_id integer not null references relaybox.subscription (subscription_id),
    lane integer not null,
    constraint lane_pkey primary key (subscription_id, lane)
);

-- How far a lane is: the row with the highest version. Inserted, never updated, and looked up from the top, so that
-- a snapshot held for hours makes no lookup longer; older versions are removed by the hundred.
create table relaybox.cursor (
    subscription_id integer not null,
    lane integer not null,
    version bigint not null,
    done_place bigint not null,
    fetched_place bigint not null,
    redrive_place bigint,
    fetch_count integer not null default 0,
    suspect_place bigint not null default 0,
    suspect_rows integer,
    worker text,
    leased_until timestamptz,
    wait_until timestamptz,
    replay_place bigint not null default 0,
    rate_from timestamptz,
    moved_at timestamptz not null default clock_timestamp(),
    constraint cursor_pkey primary key (subscription_id, lane, version),
    constraint done_is_not_beyond_fetched check (fetched_place >= done_place),
    constraint a_lease_has_a_worker check ((worker is null) = (leased_until is null))
);

comment on column relaybox.cursor.done_place is 'every message of the lane up to it was acknowledged or set aside';
comment on column relaybox.cursor.fetched_place is 'beyond done_place: fetched, not acknowledged yet; fetching again gives the same';
comment on column relaybox.cursor.redrive_place is 'what is fetched now are redriven dead letters up to this place';
comment on column relaybox.cursor.fetch_count is 'how often that was fetched without a word';
comment on column relaybox.cursor.suspect_place is 'up to it fetches are small (suspect_rows): something there seems to kill its worker';
comment on column relaybox.cursor.replay_place is 'messages up to it were done before: they are read again';
comment on column relaybox.cursor.rate_from is 'since when the rows of a limited replay are saved up';

-- Messages that were refused and will be tried again.
create table relaybox.failed_attempt (
    subscription_id integer not null references relaybox.subscription (subscription_id),
    lane integer not null,
    place bigint not null,
    attempts integer not null,
    first_at timestamptz not null default clock_timestamp(),
    last_at timestamptz not null default clock_timestamp(),
    last_by text not null,
    reason text not null,
    constraint failed_attempt_pkey primary key (subscription_id, lane, place)
);

-- Dead letters come from streams (what a log brought could not be delivered) and from subscriptions (a consumer refused it).
alter table relaybox.dead_letter
drop constraint dead_letter_pkey,
add column dead_letter_id bigint generated always as identity primary key,
add column subscription_id integer references relaybox.subscription (subscription_id),
add column lane integer,
add column place bigint,
add column sender text,
add column attempts integer not null default 1,
add column last_at timestamptz not null default clock_timestamp(),
add column last_by text not null default session_user,
add column state text not null default 'open',
add column settled_at timestamptz,
add column settled_by text,
add column settled_reason text,
add constraint state_is_known check (state in ('open', 'redriving', 'redriven', 'dropped')),
add constraint dead_letter_of_a_lane check (
    num_nulls(subscription_id, lane, place, sender) in (0, 4)
);

create unique index dead_letter_of_a_stream on relaybox.dead_letter (hop_id, "position") where subscription_id is null;

-- Serves fetch: what of a range is set aside.
create unique index dead_letter_of_a_subscription on relaybox.dead_letter (subscription_id, place);

-- Serves fetch: whether anything is to be redriven, and whose later messages wait.
create index dead_letter_unsettled on relaybox.dead_letter (subscription_id, lane, place) where state in ('open', 'redriving');

-- What people did to subscriptions and their messages: who, when, why.
create table relaybox.consumer_action (
    action_id bigint generated always as identity primary key,
    subscription text not null,
    action text not null,
    detail jsonb not null,
    reason text,
    done_at timestamptz not null default clock_timestamp(),
    done_by text not null default session_user,
    constraint action_is_known check (action in ('subscribe', 'unsubscribe', 'replay', 'cancel_replay', 'redrive', 'drop'))
);
