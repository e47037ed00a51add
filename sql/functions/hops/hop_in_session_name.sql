-- A hop as the names of its sessions say it, so that Postgres cuts none at 63 bytes: its name, or of
-- one longer than 30 characters the beginning and a hash, so that no two hops have the same.
create or replace function relaybox_internal.hop_in_session_name(hop_name text) returns text
language sql immutable parallel safe
as $$
    select case
        when length(hop_name) <= 30 then hop_name
        else left(hop_name, 17) || '~' || left(md5(hop_name), 12)
    end
$$;
