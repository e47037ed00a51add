-- What consumers reach besides functions and views.

comment on table relaybox.consumer_action is 'What people and consumers did to subscriptions, written in the transaction that did it.';
comment on column relaybox.consumer_action.action_id is 'Number of the action.';
comment on column relaybox.consumer_action.subscription is 'The subscription; for a dead letter of a stream: the stream.';
comment on column relaybox.consumer_action.action is 'subscribe, unsubscribe, replay, cancel_replay, redrive, drop or fetch_one_at_a_time.';
comment on column relaybox.consumer_action.detail is 'The values of the action; on_behalf_of: the person for whom an operator''s login acted.';
comment on column relaybox.consumer_action.reason is 'Why, as given.';
comment on column relaybox.consumer_action.done_at is 'When.';
comment on column relaybox.consumer_action.done_by is 'The login.';
