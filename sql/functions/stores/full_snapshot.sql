-- The snapshot that sees everything. With '1:1:' below it, it is the pair of a batch whose rows are
-- all settled: the first batches of a new generation. Never for a pair that an open transaction
-- could still write into.
create or replace function relaybox_internal.full_snapshot() returns pg_snapshot
language sql immutable
as $$
    select '9223372036854775807:9223372036854775807:'::pg_snapshot
$$;
