-- A reason as it is kept: whole up to 4000 characters, else its beginning and its end, with a mark that says how much is gone between them.
-- For refusals: a handler gives its traceback, and must not fail because that is long.
create or replace function relaybox_internal.cut_reason(reason text) returns text
language sql immutable parallel safe
as $$
    select case
        when length(reason) <= 4000 then reason
        else left(reason, 2900) || format(' ... [%s characters cut] ... ', length(reason) - 3900) || right(reason, 1000)
    end
$$;
