-- pre: adds a table
-- Roles can be operators of a stream: of all its subscriptions, without being bound to each.

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
grant select on relaybox_internal.stream_role to relaybox_reader;
