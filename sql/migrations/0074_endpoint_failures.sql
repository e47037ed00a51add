-- pre: adds a table
-- Workers of webhooks and of Kafka record that an endpoint does not take messages: these wait.

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
