-- Who fetches, where the caller does not say: this session. No two sessions have one pid at a time.
create or replace function relaybox.worker_name(given text) returns text
language sql stable
as $$
    select coalesce(given, 'pid ' || pg_backend_pid())
$$;
