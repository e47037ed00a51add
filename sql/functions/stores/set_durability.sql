-- Records how the commits of this store are durable. Returns whether that changed. Called by init.
create or replace function relaybox_internal.set_durability(asked text, reason text) returns boolean
language plpgsql volatile
as $$
begin
    update relaybox_internal.store s
    set durability = asked, durability_reason = reason, durability_said_by = session_user,
        durability_said_at = clock_timestamp()
    where (s.durability, s.durability_reason) is distinct from (asked, reason);
    return found;
end
$$;
