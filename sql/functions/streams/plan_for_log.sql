-- Lets the rest of the calling function plan each statement for its values where the store has many
-- segments of logs: a generic plan opens all of them when it is made, and locks all at each call.
-- Caller: a function with a setting of plan_cache_mode, which ends this one. What it found stays in
-- the session as relaybox.many_segments, on or off; a wrong answer only costs time.
create or replace function relaybox_internal.plan_for_log() returns void
language plpgsql volatile
as $$
begin
    if (
        select count(*) > 300
        from (
            select
            from relaybox_internal.hop_in i
            join pg_inherits n
                on n.inhparent = to_regclass(format('relaybox_internal.log_%s', i.log_id))
            limit 301
        ) few
    ) then
        perform set_config('relaybox.many_segments', 'on', false);
        perform set_config('plan_cache_mode', 'force_custom_plan', true);
    else
        perform set_config('relaybox.many_segments', 'off', false);
    end if;
end
$$;
