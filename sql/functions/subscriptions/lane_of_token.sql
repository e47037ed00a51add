-- The lane that a token of fetch belongs to; null: the text is no token.
create or replace function relaybox_internal.lane_of_token(token_ text) returns integer
language sql immutable parallel safe
as $$
    select substring(token_ from '^([0-9]{1,2})-[0-9a-f]{16}$')::integer
$$;
