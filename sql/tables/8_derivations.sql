-- Derivations: messages that are made from the messages of a stream.

create table relaybox_internal.derivation (
    derivation_id integer generated always as identity primary key,
    route text not null,
    version integer not null,
    subscription_id integer not null references relaybox_internal.subscription (subscription_id),
    source_name text not null,
    source_digest text not null,
    begun_at timestamptz not null default clock_timestamp(),
    begun_by text not null default session_user,
    constraint derivation_version_once unique (route, version),
    constraint derivation_version_positive check (version >= 1)
);
comment on table relaybox_internal.derivation is
'Versions of derivations: a route whose messages are made from those of a stream of this store. '
'The newest version of a route is the one that runs.';
comment on column relaybox_internal.derivation.subscription_id is
'The subscription that reads the stream for this version.';
comment on column relaybox_internal.derivation.source_name is
'What makes the messages: package.module:function, or sql.';
comment on column relaybox_internal.derivation.source_digest is
'Digest of the text of that function''s module, or of the SQL.';

create table relaybox_internal.derivation_attempt (
    derivation_id integer not null references relaybox_internal.derivation (derivation_id),
    attempt bigint not null,
    token text not null,
    stream_positions int8multirange not null,
    message_count bigint not null,
    begun_at timestamptz not null default clock_timestamp(),
    begun_by text not null,
    state text not null default 'open',
    ended_at timestamptz,
    derived_count bigint,
    first_seq bigint,
    last_seq bigint,
    reason text,
    constraint derivation_attempt_pkey primary key (derivation_id, attempt),
    constraint derivation_attempt_state_is_known check (
        state in ('open', 'published', 'failed', 'superseded')
    ),
    constraint derivation_attempt_ends check ((state = 'open') = (ended_at is null)),
    constraint published_attempts_alone_have_messages check (
        (state = 'published') = (derived_count is not null)
        and (coalesce(derived_count, 0) > 0) = (first_seq is not null)
        and (first_seq is null) = (last_seq is null)
    )
);
comment on table relaybox_internal.derivation_attempt is
'Every attempt to derive messages: written before the function is called. An attempt that has '
'published has acknowledged its messages in the same transaction.';
comment on column relaybox_internal.derivation_attempt.token is
'Of the fetch. The acknowledgement needs it, so a later attempt ends this one.';
comment on column relaybox_internal.derivation_attempt.stream_positions is
'The messages that the function gets.';
comment on column relaybox_internal.derivation_attempt.message_count is 'How many these are.';
comment on column relaybox_internal.derivation_attempt.derived_count is
'How many messages it has put into the outbox. Null: it has published nothing.';
comment on column relaybox_internal.derivation_attempt.first_seq is
'The first of them in the outbox. Others may have numbers in between.';
comment on column relaybox_internal.derivation_attempt.reason is 'Why it failed.';

create unique index derivation_attempt_open
on relaybox_internal.derivation_attempt (derivation_id) where state = 'open';

-- Serves "which attempt sent this message".
create index derivation_attempt_of_seq
on relaybox_internal.derivation_attempt (derivation_id, first_seq) where first_seq is not null;

-- Serves "what was derived from this message".
create index derivation_attempt_of_position
on relaybox_internal.derivation_attempt using gist (stream_positions) where state = 'published';
