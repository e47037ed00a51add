-- What was done to subscriptions, as far as the role of this session may see them: of the name of a
-- subscription that it is bound to, from the beginning of the first one that it may see; of a stream
-- that it is an operator of, of all its subscriptions.
create or replace view relaybox.consumer_action with (security_barrier) as
select k.action_id, k.subscription, k.action, k.detail, k.reason, k.done_at, k.done_by
from relaybox_internal.consumer_action k
where
    (select scope.sees_all from relaybox_internal.acting_role scope)
    or exists (
        select from relaybox_internal.bound_subscriptions b
        where b.subscription_id = k.subscription_id
    )
    -- of a dead letter that a stream set aside: it is of no subscription
    or k.subscription_id is null and k.action = 'drop' and exists (
        select from relaybox_internal.allowed_streams o
        where o.stream = k.subscription and k.done_at >= o.bound_at
    );

comment on view relaybox.consumer_action is
'What people and consumers did to subscriptions, written in the transaction that did it.';
comment on column relaybox.consumer_action.action_id is 'Number of the action.';
comment on column relaybox.consumer_action.subscription is
'The subscription; for a dead letter of a stream: the stream.';
comment on column relaybox.consumer_action.action is
'subscribe, unsubscribe, replay, cancel_replay, redrive, drop, fetch_one_at_a_time or change_delayed.';
comment on column relaybox.consumer_action.detail is
'The values of the action; on_behalf_of: the person for whom an operator''s login acted.';
comment on column relaybox.consumer_action.reason is 'Why, as given.';
comment on column relaybox.consumer_action.done_at is 'When.';
comment on column relaybox.consumer_action.done_by is 'The login.';
