-- The stream positions of a range that a subscription's cursor does not return: set aside and not
-- redriven since, or redriven and acknowledged in this pass before the cursor came there. A second
-- cursor does not return the dead letters of the subscription that it replays either, but for messages
-- that this one passed: it reads history.
create or replace function relaybox_internal.set_aside_stream_positions(
    subscription_ relaybox_internal.subscription, after_stream_position bigint,
    bound_stream_position bigint
) returns bigint[]
language sql stable
as $$
    select array(
        select d.stream_position from relaybox_internal.dead_letter d
        where d.subscription_id in (subscription_.subscription_id, subscription_.replay_of)
            and d.stream_position > after_stream_position
            and d.stream_position <= bound_stream_position
            and (
                d.state <> 'redriven' or d.given_ahead
                    and d.subscription_id = subscription_.subscription_id
            )
            and (d.reason <> 'delayed' or d.subscription_id = subscription_.subscription_id)
    )
$$;
