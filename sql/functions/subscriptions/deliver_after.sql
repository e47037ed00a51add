-- From when on a message may be given: the seconds since 1970 in the header relaybox-deliver-after.
-- Null: at once, also for a value that no outbox of this version takes, which an earlier version let
-- in. Inlined.
create or replace function relaybox_internal.deliver_after(headers jsonb) returns timestamptz
language sql immutable parallel safe
as $$
    select case
        when jsonb_typeof(headers -> 'relaybox-deliver-after') = 'number'
            then case
                when (headers -> 'relaybox-deliver-after')::numeric between 0 and 253402300799
                    then to_timestamp(
                        (headers -> 'relaybox-deliver-after')::numeric::double precision
                    )
            end
    end
$$;
