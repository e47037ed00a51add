-- Refuses one fetched message, in the caller's transaction, and ends the fetch. After nack_limit
-- nacks the message is a dead letter with the reason `refused`. Locks the lane.
create or replace function relaybox.nack(
    subscription text, stream_position bigint, reason text, token text default null
)
returns boolean
language plpgsql volatile security definer
set search_path = pg_catalog, relaybox, pg_temp
set row_security = off
as $$
declare
    subscription_ relaybox_internal.subscription
    := relaybox_internal.subscription_named(nack.subscription);
    kept_reason text := relaybox_internal.cut_reason(nack.reason);
    cursor_ relaybox_internal.cursor := relaybox_internal.lock_fetch(
        subscription_, nack.token,
        'select relaybox.nack(''SUBSCRIPTION'', STREAM_POSITION, ''REASON'', ''TOKEN'').' || case
            when relaybox_internal.lane_of_token(kept_reason) is not null
                then ' The reason looks like a token.'
            else ''
        end
    );
    worker_ text := cursor_.worker;
    attempts_ integer;
    stream relaybox_internal.stream;
    is_set_aside boolean;
begin
    perform relaybox_internal.require_reason(
        kept_reason, 'a message is refused',
        'nack(''SUBSCRIPTION'', STREAM_POSITION, ''REASON'', ''TOKEN'')'
    );
    perform relaybox_internal.require_fetched(cursor_, subscription_, nack.stream_position);
    select s.* into stream from relaybox_internal.stream s
    where s.stream_id = subscription_.stream_id;
    perform relaybox_internal.refuse_detached(
        stream, nack.stream_position,
        format('subscription %s, lane %s', subscription_.subscription, cursor_.lane)
    );
    if not relaybox_internal.is_fetched(cursor_, subscription_, nack.stream_position) then
        raise exception using errcode = 'RB033',
            message = format(
                'subscription %s, lane %s: stream position %s is no message of this lane, '
                || 'or is set aside',
                subscription_.subscription, cursor_.lane, nack.stream_position
            ),
            hint = 'Give the stream position and the lane of a message as fetch gave them.';
    end if;
    insert into relaybox_internal.failed_attempt as f (
        subscription_id, lane, stream_position, attempts, last_by, reason
    )
    values (
        subscription_.subscription_id, cursor_.lane, nack.stream_position, 1, worker_, kept_reason
    )
    on conflict on constraint failed_attempt_pkey do update set
        attempts = f.attempts + 1, last_at = clock_timestamp(),
        last_by = excluded.last_by, reason = excluded.reason
    returning f.attempts into attempts_;
    is_set_aside := attempts_ >= subscription_.nack_limit;
    if is_set_aside then
        perform relaybox_internal.set_aside(
            cursor_, subscription_, nack.stream_position, 'refused', kept_reason, attempts_,
            worker_
        );
    else
        cursor_.wait_until
        := clock_timestamp() + make_interval(secs => subscription_.retry_seconds);
    end if;
    cursor_.worker := null;
    cursor_.leased_until := null;
    cursor_.fetch_count := 0;
    perform relaybox_internal.move_cursor(cursor_);
    return is_set_aside;
end
$$;

comment on function relaybox.nack(text, bigint, text, text) is
'Refuses one fetched message. It comes again, with the messages after it, until it is refused
nack_limit times: then it is a dead letter, and the messages after it go on.
Ends the fetch: acknowledge what is done before it, and fetch again before the next ack or nack.
`subscription`: its name. `stream_position`: of the message.
`reason`: what is wrong with it. It becomes the detail of the dead letter. A long one is cut.
`token`: as fetch returned it; null only in the transaction of the fetch.
Returns true if the message is a dead letter now.
Errors: RB031 (not subscribed), RB033 (not part of this fetch, or no token), RB035 (fetched again
    since), RB036 (no reason), RB038 (detached since), RB040 (bound to other
    roles).';
