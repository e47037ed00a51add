-- When a message expires, as its header says. Null: never. Inlined.
create or replace function relaybox_internal.expires_at(headers jsonb) returns timestamptz
language sql immutable parallel safe
as $$
    select relaybox_internal.header_time(headers, 'relaybox-expires-at')
$$;
