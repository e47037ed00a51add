-- Records which hops that leave this store are in the relaybox.yaml of an init, and writes only what is new.
-- A hop that is not in it counts as removed, with the number of its newest attempt. recorded_by: null for the
-- login. Caller: an init, which holds the lock of inits and the rows of the hops.
create or replace function relaybox_internal.record_hops_of_file(hops text[], recorded_by text)
returns void
language sql volatile
as $$
    update relaybox_internal.hop_out h
    set in_file_at = clock_timestamp(), in_file_by = coalesce(recorded_by, session_user),
        removed_at = null, removed_by = null, removed_attempt = null
    where h.hop = any(hops) and (h.in_file_at is null or h.removed_at is not null);
    update relaybox_internal.hop_out h
    set removed_at = coalesce(h.removed_at, clock_timestamp()),
        removed_by = coalesce(h.removed_by, recorded_by, session_user),
        removed_attempt = h.attempt
    where h.hop <> all(hops) and h.retired_at is null
        and h.removed_attempt is distinct from h.attempt;
$$;
