-- Acknowledges a fetch up to a stream position, in the caller's transaction. Without a token: the
-- fetch of this transaction. Locks the lane.
create or replace function relaybox.ack(
    subscription text, stream_position bigint, token text default null
)
returns bigint
language plpgsql volatile security definer
set search_path = pg_catalog, relaybox, pg_temp
set row_security = off
as $$
declare
    subscription_ relaybox_internal.subscription
    := relaybox_internal.subscription_named(ack.subscription);
    cursor_ relaybox_internal.cursor;
begin
    cursor_ := relaybox_internal.apply_ack(
        relaybox_internal.lock_fetch(
            subscription_, ack.token,
            'select relaybox.ack(''SUBSCRIPTION'', STREAM_POSITION, ''TOKEN'').'
        ),
        subscription_, ack.stream_position
    );
    perform relaybox_internal.move_cursor(cursor_);
    return cursor_.done_stream_position;
end
$$;

comment on function relaybox.ack(text, bigint, text) is
'Acknowledges every message of a fetch up to a stream position. Commits with your transaction: with
the effects of your work, or not at all.
`subscription`: its name. `stream_position`: of the last message that is done.
`token`: as fetch returned it; null only in the transaction of the fetch.
Returns the stream position up to which the lane is acknowledged.
Errors: RB031 (not subscribed), RB033 (not part of this fetch, or no token), RB035 (fetched again
    since, or the lane is leased to another worker), RB040 (bound to other roles).';
