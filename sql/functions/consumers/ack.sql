-- Acknowledges what a fetch gave, up to a place, in the caller's transaction: with the effects of its work, or not at all. Returns the place
-- that the lane is done through. The token is the one that fetch returned; only in the fetch's own transaction it may be left out.
-- Raises RB031 not subscribed, RB033 what this fetch did not give, or no token, RB035 the messages were fetched anew since.
create or replace function relaybox.ack(subscription text, place bigint, token text default null) returns bigint
language plpgsql volatile security definer
set search_path = pg_catalog, relaybox, pg_temp
as $$
declare
    known relaybox.subscription := relaybox.subscription_named(ack.subscription);
    c relaybox.cursor;
begin
    c := relaybox.acknowledged(relaybox.lock_fetch(known, ack.token, 'select relaybox.ack(''SUBSCRIPTION'', PLACE, ''TOKEN'').'), known, ack.place);
    perform relaybox.move_cursor(c);
    return c.done_place;
end
$$;

comment on function relaybox.ack(text, bigint, text) is
'Acknowledges every message of a fetch up to a place. Commits with your transaction: with the effects of your work, or not at all.
`subscription`: its name. `place`: of the last message that is done.
`token`: as fetch returned it; null only in the transaction of the fetch.
Returns the place up to which the lane is acknowledged.
Errors: RB031 (not subscribed), RB033 (not part of this fetch, or no token), RB035 (fetched again since, or the lane is leased to
another worker).';
