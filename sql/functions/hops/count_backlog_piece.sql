-- Counts the rows of a piece of the backlog, and finds its first seq. No row: it has none. Planned with
-- the values of the call, so that segments beside the seqs are not looked at.
create or replace function relaybox_internal.count_backlog_piece(
    lower_ pg_snapshot, upper_ pg_snapshot, topics_ text[], seqs_ int8multirange
)
returns table (first_seq bigint, row_count bigint)
language plpgsql stable
set plan_cache_mode = force_custom_plan
as $$
begin
    return query
    -- one bucket takes every seq
    select b.first_seq, b.row_count
    from relaybox_internal.backlog_buckets(
        lower_, upper_, topics_, seqs_, 4611686018427387904, 4611686018427387904
    ) b;
end
$$;
