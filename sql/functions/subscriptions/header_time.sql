-- A time in a header of a message: seconds since 1970. Null: there is none, or a value that no outbox of
-- this version takes, which an earlier version let in. Rounded to microseconds before the cast, which
-- would raise for a number such as 1e-400: the outbox takes it, and it would stop each reader. Inlined.
create or replace function relaybox_internal.header_time(headers jsonb, header text)
returns timestamptz
language sql immutable parallel safe
as $$
    select case
        when jsonb_typeof(headers -> header) = 'number'
            then case
                when (headers -> header)::numeric between 0 and 253402300799
                    then to_timestamp(round((headers -> header)::numeric, 6)::double precision)
            end
    end
$$;
