-- Records which login and application drive an attempt at a batch, and returns the attempt. Runs in
-- the transaction that begins it. Only people read the record.
create or replace function relaybox_internal.record_attempt(
    hop_name text, batch_ bigint, attempt_ bigint, recorded_by_ text, application_ text
)
returns bigint
language sql volatile
as $$
    insert into relaybox_internal.attempt (hop, batch, attempt, recorded_by, application)
    values (hop_name, batch_, attempt_, recorded_by_, application_)
    on conflict do nothing;
    select attempt_
$$;
