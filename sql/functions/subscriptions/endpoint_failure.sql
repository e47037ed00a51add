-- How the endpoint of a subscription fails; no row: it does not. The pause never lasts longer than it
-- was given for, also if the clock was corrected. Locks nothing.
create or replace function relaybox.endpoint_failure(subscription text)
returns table (
    endpoint text, failing_since timestamptz, failure_count bigint, reason text,
    rest_seconds double precision
)
language plpgsql volatile security definer
set search_path = pg_catalog, relaybox, pg_temp
set row_security = off
as $$
declare
    subscription_ relaybox_internal.subscription
    := relaybox_internal.subscription_named(
        endpoint_failure.subscription, is_reading => true, is_operating => true
    );
begin
    return query
    select
        f.endpoint, f.failing_since, f.failure_count, f.reason,
        least(f.pause_seconds, greatest(
            0,
            f.pause_seconds
            - extract(epoch from clock_timestamp() - f.failed_at)::double precision
        ))
    from relaybox_internal.endpoint_failure f
    where f.subscription_id = subscription_.subscription_id;
end
$$;

comment on function relaybox.endpoint_failure(text) is
'Shows that the endpoint to which a subscription is delivered fails. No row: it does not.
`subscription`: its name.
Returns `endpoint`, `failing_since`, `failure_count` (one after the other), `reason` (of the newest),
    `rest_seconds` (until the next attempt).
Errors: RB031 (not subscribed), RB040 (bound to other roles).';
