-- pre: adds a column
-- An action belongs to a subscription, not to its name: the next subscription of the name shows nothing of it.

alter table relaybox_internal.consumer_action add column subscription_id integer;
comment on column relaybox_internal.consumer_action.subscription_id is
'The subscription. Null: a dead letter of a stream, or recorded before this column was added.';
