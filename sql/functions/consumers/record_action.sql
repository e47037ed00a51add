-- Writes down what somebody did to a subscription, in the transaction that does it; a session that acts for somebody else says for whom.
create or replace function relaybox.record_action(subscription_name text, action_ text, reason_ text, detail_ jsonb) returns void
language sql volatile
as $$
    insert into relaybox.consumer_action (subscription, action, reason, detail)
    select subscription_name, action_, reason_, detail_ || jsonb_strip_nulls(jsonb_build_object(
        'on_behalf_of', nullif(current_setting('relaybox.on_behalf_of', true), '')
    ))
$$;
