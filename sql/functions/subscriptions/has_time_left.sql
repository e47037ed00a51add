-- Whether a lease or a wait still lasts: until lies in the future, and no further than it can have
-- been given for. A time that a clock gave while it was ahead holds nothing up once it is
-- corrected.
create or replace function relaybox_internal.has_time_left(until timestamptz, longest_seconds integer)
returns boolean
language sql volatile
as $$
    select
        until > clock_timestamp()
        and until <= clock_timestamp() + make_interval(secs => longest_seconds)
$$;
