-- Records what a login did to a subscription, in the transaction that does it. `on_behalf_of` is
-- recorded only for members of relaybox_operator and of the owner's role, since every session can
-- set that setting. done_by is the login in any case.
create or replace function relaybox_internal.record_action(
    subscription_name text, action_ text, reason_ text, detail_ jsonb
)
returns void
language sql volatile
as $$
    insert into relaybox_internal.consumer_action (subscription, action, reason, detail)
    select
        subscription_name, action_, reason_,
        detail_ || jsonb_strip_nulls(jsonb_build_object(
            'on_behalf_of', case
                when relaybox_internal.acts_for_others(session_user)
                    then nullif(current_setting('relaybox.on_behalf_of', true), '')
            end
        ))
$$;
