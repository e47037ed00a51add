-- Returns how often a subscription has refused the message at a stream position so far.
create or replace function relaybox_internal.attempts_at(
    subscription_ relaybox_internal.subscription, stream_position_ bigint
)
returns integer
language sql stable
as $$
    select coalesce(max(f.attempts), 0)
    from relaybox_internal.failed_attempt f
    where f.subscription_id = subscription_.subscription_id
        and f.stream_position = stream_position_
$$;
