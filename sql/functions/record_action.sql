-- Writes down what somebody did to a subscription, in the transaction that does it.
create or replace function relaybox.record_action(subscription_name text, action_ text, reason_ text, detail_ jsonb) returns void
language sql volatile
as $$
    insert into relaybox.consumer_action (subscription, action, reason, detail) values (subscription_name, action_, reason_, detail_)
$$;
