-- Counts the rows of the outbox that became visible between two snapshots, in buckets of seq.
-- after_seq: the anchor of the hop's generation; 0 for the first one. Segments that were sealed before
-- lower_ have no such row: the planner leaves them out, since it plans with the values of the call.
create or replace function relaybox_internal.outbox_buckets(
    lower_ pg_snapshot, upper_ pg_snapshot, topics_ text[], bucket_seqs bigint, after_seq bigint
)
returns table (first_seq bigint, last_seq bigint, row_count bigint)
language plpgsql stable
set plan_cache_mode = force_custom_plan
as $$
declare
    sealed_seq constant bigint := relaybox_internal.sealed_through(lower_);
    first_kept constant bigint := (select s.first_kept_seq from relaybox_internal.store s);
begin
    return query
    select b.* from relaybox_internal.unsealed_buckets(
        lower_, upper_, topics_, bucket_seqs, after_seq, sealed_seq, first_kept
    ) b;
end
$$;
