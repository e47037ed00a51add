-- Locks the lane of a fetch until the transaction ends, and returns its cursor. Without a token: the fetch of this very transaction.
-- Raises RB033 for a token that is missing or unknown, RB035 if the lane was fetched from, or put to another place, since that fetch.
create or replace function relaybox.lock_fetch(known relaybox.subscription, token_ text) returns relaybox.cursor
language plpgsql volatile
as $$
declare
    lane_ integer;
    c relaybox.cursor;
begin
    if token_ is null then
        select min(k.lane) into lane_ from relaybox.lane_cursors k
        where k.subscription_id = known.subscription_id and k.fetched_in = pg_current_xact_id_if_assigned()
        having count(*) = 1;
        if lane_ is null then
            raise exception using errcode = 'RB033',
                message = format(
                    'subscription %s: the token is missing, and this transaction has not fetched from exactly one lane', known.subscription
                ),
                hint = 'Fetch, work and acknowledge in one transaction; or give the token that fetch returned with each message, '
                    || 'from any session: select relaybox.ack(''SUBSCRIPTION'', PLACE, ''TOKEN'').';
        end if;
        return relaybox.lock_lane(known, lane_);
    end if;
    lane_ := relaybox.lane_of_token(token_);
    if lane_ is null or lane_ not between 1 and known.lanes then
        raise exception using errcode = 'RB033',
            message = format('subscription %s: %L is no token that fetch returned', known.subscription, left(token_, 60)),
            hint = 'Give the column token of the fetched message as it is: select relaybox.ack(''SUBSCRIPTION'', PLACE, ''TOKEN'').';
    end if;
    c := relaybox.lock_lane(known, lane_);
    if c.token is distinct from token_ then
        perform relaybox.refuse_token(c, known, token_);
    end if;
    return c;
end
$$;
