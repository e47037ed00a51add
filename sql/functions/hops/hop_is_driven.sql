-- Whether a driver of this hop is connected to this store: it will move all messages of the hop, so
-- another driver is not needed. A hint for polls, never a lock. A session of an application is no
-- driver, whatever its name.
create or replace function relaybox_internal.hop_is_driven(hop_name text) returns boolean
language sql volatile
as $$
    select exists (
        select from relaybox_internal.trusted_sessions() t
        where t.name = 'relaybox ' || hop_name || ' driver'
    )
$$;
