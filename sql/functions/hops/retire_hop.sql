-- Retires a hop that leaves this store: from now on nobody waits for what it has not moved, and it moves nothing more. Locks its row, as
-- planning does. Returns false if it was retired before. In the caller's transaction. Raises RB001, RB004.
create or replace function relaybox.retire_hop(hop_name text, reason text, recorded_by text) returns boolean
language plpgsql volatile
as $$
declare
    known relaybox.hop_out;
begin
    perform relaybox.require_writable_primary();
    set local synchronous_commit = on;
    select * into known from relaybox.hop_out h where h.hop = hop_name for update;
    if not found then
        raise exception using errcode = 'RB004', message = format('hop %s does not leave this store', hop_name), hint = 'Run: relaybox retire';
    end if;
    if known.retired_at is not null then
        return false;
    end if;
    update relaybox.hop_out h
    set retired_at = clock_timestamp(), retired_by = recorded_by, retired_reason = reason,
        given_up = case when h.reads_log is null then pg_current_snapshot() end
    where h.hop = hop_name;
    return true;
end
$$;
