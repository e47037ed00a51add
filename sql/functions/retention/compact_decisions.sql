-- Removes the decisions about a log's batches up to through_batch, and keeps their counts, newest
-- time and last stream position in stream_log. Caller holds the stream.
create or replace function relaybox_internal.compact_decisions(
    log_id_ integer, through_batch bigint
)
returns void
language sql volatile
as $$
    with removed as (
        delete from relaybox_internal.decision d
        where d.log_id = log_id_ and d.batch <= through_batch
        returning d.duplicate_count, d.decided_at, d.last_stream_position
    ), total as (
        select
            coalesce(sum(r.duplicate_count), 0) as duplicates, max(r.decided_at) as decided_at,
            max(r.last_stream_position) as stream_position
        from removed r
    )
    update relaybox_internal.stream_log l set
        compacted_duplicates = l.compacted_duplicates + t.duplicates,
        compacted_decided_at = greatest(l.compacted_decided_at, t.decided_at),
        compacted_stream_position = greatest(l.compacted_stream_position, t.stream_position)
    from total t
    where l.log_id = log_id_;
$$;
