-- Records that the endpoint of a subscription took no message, and how long its worker pauses.
-- Locks the row of this subscription. Raises RB036 for a text or a pause that is not allowed.
create or replace function relaybox.record_endpoint_failure(
    subscription text, endpoint text, reason text, pause_seconds double precision
)
returns bigint
language plpgsql volatile security definer
set search_path = pg_catalog, relaybox, pg_temp
set row_security = off
as $$
declare
    subscription_ relaybox_internal.subscription
    := relaybox_internal.subscription_named(record_endpoint_failure.subscription);
    count_ bigint;
begin
    perform relaybox_internal.require_length(
        'the endpoint', record_endpoint_failure.endpoint, 2000
    );
    if record_endpoint_failure.endpoint is null or record_endpoint_failure.reason is null
        or record_endpoint_failure.pause_seconds is null
        or not record_endpoint_failure.pause_seconds between 0 and 86400
    then
        raise exception using errcode = 'RB036',
            message = format(
                'subscription %s: a failure of an endpoint needs endpoint, reason, and pause_seconds '
                'of 0 to 86400',
                subscription_.subscription
            ),
            hint = 'select relaybox.record_endpoint_failure(''SUBSCRIPTION'', ''ENDPOINT'', '
                '''REASON'', PAUSE_SECONDS).';
    end if;
    insert into relaybox_internal.endpoint_failure as f (
        subscription_id, endpoint, pause_seconds, reason
    )
    values (
        subscription_.subscription_id, record_endpoint_failure.endpoint,
        record_endpoint_failure.pause_seconds,
        relaybox_internal.cut_reason(record_endpoint_failure.reason)
    )
    on conflict on constraint endpoint_failure_pkey do update set
        endpoint = excluded.endpoint, failure_count = f.failure_count + 1,
        failed_at = clock_timestamp(), pause_seconds = excluded.pause_seconds,
        reason = excluded.reason, failed_for = excluded.failed_for
    returning f.failure_count into count_;
    return count_;
end
$$;

comment on function relaybox.record_endpoint_failure(text, text, text, double precision) is
'Records that the endpoint to which a worker delivers takes no message now. Changes no message, no
lane and no attempt: release the messages that were fetched, and come again after the pause.
`subscription`: its name. `endpoint`: what people know it as, without a secret.
`reason`: what it answered. A long one is cut. `pause_seconds`: until the next attempt, 0 to 86400.
Returns how many failures there were since a message was delivered.
Errors: RB031 (not subscribed), RB036 (a value that is not allowed), RB040 (bound to other roles).';
