-- Locks the lane of a fetch until the transaction ends, and returns its cursor. Without a token:
-- the fetch of this transaction. call_hint: the call that was made, written with a token. Raises
-- RB033 for a token that is missing or unknown, RB035 if the lane was fetched from, or put to
-- another stream position, since that fetch.
create or replace function relaybox_internal.lock_fetch(
    subscription_ relaybox_internal.subscription, token_ text, call_hint text
)
returns relaybox_internal.cursor
language plpgsql volatile
as $$
declare
    lanes_ integer[];
    lane_ integer;
    cursor_ relaybox_internal.cursor;
begin
    if token_ is null then
        lanes_ := relaybox_internal.fetched_lanes(subscription_);
        if cardinality(lanes_) <> 1 then
            perform relaybox_internal.refuse_no_token(subscription_, lanes_, call_hint);
        end if;
        return relaybox_internal.lock_lane(subscription_, lanes_[1]);
    end if;
    lane_ := relaybox_internal.lane_of_token(token_);
    if lane_ is null or lane_ not between 1 and subscription_.lanes then
        raise exception using errcode = 'RB033',
            message = format(
                'subscription %s: %L is no token that fetch returned',
                subscription_.subscription, left(token_, 60)
            ),
            hint = format(
                'Give the column token of the fetched message as it is: %s', call_hint
            );
    end if;
    cursor_ := relaybox_internal.lock_lane(subscription_, lane_);
    if cursor_.token is distinct from token_ then
        perform relaybox_internal.refuse_token(cursor_, subscription_, token_);
    end if;
    return cursor_;
end
$$;
