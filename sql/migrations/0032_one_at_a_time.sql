-- pre: allows more than before
-- What people did to subscriptions: they also make fetches small, to find a message that kills its worker.

alter table relaybox.consumer_action drop constraint action_is_known;
alter table relaybox.consumer_action add constraint action_is_known
check (action in ('subscribe', 'unsubscribe', 'replay', 'cancel_replay', 'redrive', 'drop', 'fetch_one_at_a_time'));
