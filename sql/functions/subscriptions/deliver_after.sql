-- From when on a message may be given, as its header says. Null: at once. Inlined.
create or replace function relaybox_internal.deliver_after(headers jsonb) returns timestamptz
language sql immutable parallel safe
as $$
    select relaybox_internal.header_time(headers, 'relaybox-deliver-after')
$$;
