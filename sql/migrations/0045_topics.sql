-- pre: adds a column with a default, and a table
-- Topics can be granted to roles: a consumer reads no message of another topic.

alter table relaybox_internal.store add column bind_topics boolean not null default false;
comment on column relaybox_internal.store.bind_topics is
'True: a role reads only messages of topics that it was granted, as relaybox.yaml says.';

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
grant select on relaybox_internal.topic_role to relaybox_reader;
