-- Records what a login did to a subscription, in the transaction that does it. subscription_id_ is
-- null, and name that of a stream, for a dead letter that a stream set aside. `on_behalf_of` is
-- recorded only for members of relaybox_operator and of the owner's role, since every session can
-- set that setting. done_by is the login in any case.
create or replace function relaybox_internal.record_action(
    subscription_id_ integer, name text, action_ text, reason_ text, detail_ jsonb
)
returns void
language sql volatile
as $$
    insert into relaybox_internal.consumer_action (
        subscription_id, subscription, action, reason, detail
    )
    select
        subscription_id_, name, action_, reason_,
        detail_ || jsonb_strip_nulls(jsonb_build_object(
            'on_behalf_of', case
                when relaybox_internal.acts_for_others(session_user)
                    then nullif(current_setting('relaybox.on_behalf_of', true), '')
            end
        ))
$$;
