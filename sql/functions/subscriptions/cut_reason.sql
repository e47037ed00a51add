-- A reason as it is kept: whole up to 4000 characters, else its beginning and its end, and between
-- them the number of characters that were cut. For nacks: a handler gives its traceback, and a long
-- one must not make the nack fail.
create or replace function relaybox_internal.cut_reason(reason text) returns text
language sql immutable parallel safe
as $$
    select case
        when length(reason) <= 4000 then reason
        else left(reason, 2900)
            || format(' ... [%s characters cut] ... ', length(reason) - 3900)
            || right(reason, 1000)
    end
$$;
