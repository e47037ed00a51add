-- pre: adds tables
-- A next version of a derivation is tried on a range that was derived before, and sends nothing.

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
grant select on relaybox_internal.derivation_trial, relaybox_internal.derivation_trial_attempt,
relaybox_internal.derivation_trial_message to relaybox_reader;
