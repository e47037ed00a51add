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

create table relaybox_internal.derivation_trial (
    trial_id integer generated always as identity primary key,
    derivation_id integer not null references relaybox_internal.derivation (derivation_id),
    version integer not null,
    source_name text not null,
    source_digest text not null,
    asked_start text,
    asked_through text,
    first_stream_position bigint not null,
    last_stream_position bigint not null,
    done_stream_position bigint not null,
    state text not null default 'open',
    begun_at timestamptz not null default clock_timestamp(),
    begun_by text not null,
    ended_at timestamptz,
    ended_by text,
    reason text,
    constraint derivation_trial_state_is_known check (state in ('open', 'promoted', 'dropped')),
    constraint derivation_trial_ends check (
        (state = 'open') = (ended_at is null) and (ended_at is null) = (ended_by is null)
    ),
    constraint derivation_trial_within_its_range check (
        first_stream_position <= last_stream_position
        and done_stream_position between first_stream_position - 1 and last_stream_position
    )
);
comment on table relaybox_internal.derivation_trial is
'Trials of a next version of a derivation: it derives again from a range that the version '
'derivation_id has derived from, and sends nothing.';
comment on column relaybox_internal.derivation_trial.derivation_id is
'The version that goes on meanwhile, with whose messages those of the trial are compared.';
comment on column relaybox_internal.derivation_trial.version is 'The version that is tried.';
comment on column relaybox_internal.derivation_trial.source_digest is
'Digest of the text of the function''s module, or of the SQL. Another one is another trial.';
comment on column relaybox_internal.derivation_trial.asked_start is
'From where it was asked to derive. Null: from the first message that the store keeps.';
comment on column relaybox_internal.derivation_trial.asked_through is
'Through where it was asked to derive. Null: through the newest message.';
comment on column relaybox_internal.derivation_trial.first_stream_position is
'Of the range, as the begin of the trial has pinned it.';
comment on column relaybox_internal.derivation_trial.done_stream_position is
'From the first stream position to this one the trial has derived.';
comment on column relaybox_internal.derivation_trial.ended_by is
'The login, and for whom it acted.';

create unique index derivation_trial_open
on relaybox_internal.derivation_trial (derivation_id) where state = 'open';

create table relaybox_internal.derivation_trial_attempt (
    trial_id integer not null references relaybox_internal.derivation_trial (trial_id),
    attempt bigint not null,
    token text not null,
    first_stream_position bigint not null,
    last_stream_position bigint not null,
    begun_at timestamptz not null default clock_timestamp(),
    begun_by text not null,
    state text not null default 'open',
    ended_at timestamptz,
    derived_count bigint,
    reason text,
    constraint derivation_trial_attempt_pkey primary key (trial_id, attempt),
    constraint derivation_trial_attempt_state_is_known check (
        state in ('open', 'done', 'failed', 'set_aside', 'superseded')
    ),
    constraint derivation_trial_attempt_ends check ((state = 'open') = (ended_at is null)),
    constraint done_attempts_alone_have_messages check (
        (state = 'done') = (derived_count is not null)
    )
);
comment on table relaybox_internal.derivation_trial_attempt is
'Every attempt of a trial: written before the function is called. The messages of attempts that are '
'done count.';
comment on column relaybox_internal.derivation_trial_attempt.token is
'That no other attempt has, also after the store was restored.';
comment on column relaybox_internal.derivation_trial_attempt.state is
'set_aside: the function failed for its only message, and the trial went on after it.';
comment on column relaybox_internal.derivation_trial_attempt.reason is 'Why it failed.';

create unique index derivation_trial_attempt_open
on relaybox_internal.derivation_trial_attempt (trial_id) where state = 'open';

create table relaybox_internal.derivation_trial_message (
    trial_id integer not null references relaybox_internal.derivation_trial (trial_id),
    seq bigint generated always as identity,
    message_id uuid not null,
    topic text not null,
    sender text not null,
    key text,
    headers jsonb not null,
    payload text,
    payload_bytes bytea,
    constraint derivation_trial_message_pkey primary key (trial_id, seq),
    constraint topic_is_a_plain_name check (topic ~ '^[a-z0-9_.-]{1,48}$'),
    constraint key_at_most_200_characters check (length(key) <= 200),
    constraint message_has_exactly_one_payload check (num_nonnulls(payload, payload_bytes) = 1),
    constraint payload_at_most_16_mib check (
        octet_length(payload) <= 16777216 and octet_length(payload_bytes) <= 16777216
    ),
    constraint headers_are_an_object check (jsonb_typeof(headers) = 'object'),
    constraint headers_at_most_64_kib check (octet_length(headers::text) <= 65536),
    constraint headers_nest_at_most_64_levels check (
        not jsonb_path_exists(
            headers, 'strict $.**{64} ? (@.type() == "object" || @.type() == "array")'
        )
    ),
    constraint numbers_in_headers_below_1e308 check (
        not jsonb_path_exists(headers, 'strict $.** ? (@.abs() >= 1e308)')
    )
);
comment on table relaybox_internal.derivation_trial_message is
'What a trial would send, with the constraints of relaybox.outbox. Deleted when the trial ends.';
comment on column relaybox_internal.derivation_trial_message.seq is
'In the order in which the messages would be in the outbox.';
