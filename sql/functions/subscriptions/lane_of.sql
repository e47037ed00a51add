-- The lane of a subscription to which a message belongs: always the same for one sender (or key).
-- Inlined.
create or replace function relaybox_internal.lane_of(
    lane_by text, lanes integer, sender text, key text
)
returns integer
language sql immutable parallel safe
as $$
    select 1 + ((
        hashtextextended(
            case when lane_by = 'key' then coalesce(key, sender) else sender end, 0
        ) & 9223372036854775807
    ) % lanes)::integer
$$;
