-- post: relaybox.consumer_action becomes a view, and its table moves
-- Subscriptions can be bound to roles. The view shows a consumer only the actions on subscriptions that it may use.

alter table relaybox_internal.store add column bind_subscriptions boolean not null default false;
comment on column relaybox_internal.store.bind_subscriptions is
'True: a role uses only subscriptions that it is bound to, as relaybox.yaml says.';

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

alter table relaybox.consumer_action set schema relaybox_internal;
revoke all on relaybox_internal.consumer_action from relaybox_consumer;
comment on table relaybox_internal.consumer_action is
'What people and consumers did to subscriptions, written in the transaction that did it. To read '
'it: relaybox.consumer_action.';
grant select on relaybox_internal.subscription_role to relaybox_reader;
