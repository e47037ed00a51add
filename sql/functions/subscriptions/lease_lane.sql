-- A locked lane's cursor leased to a worker, with the token that proves the fetch. Writes nothing.
create or replace function relaybox_internal.lease_lane(
    cursor_ relaybox_internal.cursor, subscription_ relaybox_internal.subscription, worker_ text
)
returns relaybox_internal.cursor
language plpgsql volatile
as $$
begin
    cursor_.worker := worker_;
    cursor_.leased_until
    := clock_timestamp() + make_interval(secs => subscription_.lease_seconds);
    cursor_.token := relaybox_internal.new_token(
        cursor_.subscription_id, cursor_.lane, cursor_.version
    );
    cursor_.fetched_in := pg_current_xact_id();
    return cursor_;
end
$$;
