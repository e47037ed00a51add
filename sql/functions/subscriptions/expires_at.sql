-- When a message expires: the seconds since 1970 in the header relaybox-expires-at. Null: never, also
-- for a value that no outbox of this version takes, which an earlier version let in. Inlined.
create or replace function relaybox_internal.expires_at(headers jsonb) returns timestamptz
language sql immutable parallel safe
as $$
    select case
        when jsonb_typeof(headers -> 'relaybox-expires-at') = 'number'
            then case
                when (headers -> 'relaybox-expires-at')::numeric between 0 and 253402300799
                    then to_timestamp(
                        (headers -> 'relaybox-expires-at')::numeric::double precision
                    )
            end
    end
$$;
