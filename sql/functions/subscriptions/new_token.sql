-- A token for a fetch that moves a lane's cursor to a version: no other fetch has it, and no number
-- is it by accident. It is no secret. Inlined.
create or replace function relaybox_internal.new_token(
    subscription_id integer, lane integer, version bigint
)
returns text
language sql volatile
as $$
    select lane || '-' || lpad(to_hex(hash_record_extended(
        row(subscription_id, version, pg_current_xact_id(), clock_timestamp(), random()), 0
    )), 16, '0')
$$;
