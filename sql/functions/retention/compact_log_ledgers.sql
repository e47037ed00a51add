-- Removes what was written down about batches of a log of which no message is kept, nor detached: receipts, arrivals, decisions,
-- runs of stream positions, ranges of indexes. Their counts stay. Returns how many batches; again: none. Locks the
-- stream, then the hop (docs/protocol.md).
create or replace function relaybox_internal.compact_log_ledgers(log_id_ integer) returns bigint
language plpgsql volatile
set lock_timeout = '500ms'
as $$
declare
    head relaybox_internal.hop_in;
    input_log relaybox_internal.stream_log;
    stream_ relaybox_internal.stream;
    last record;
    gone bigint;
    kept_from bigint;
begin
    perform relaybox_internal.require_writable_primary();
    perform set_config('synchronous_commit', 'local', true);
    select s.* into stream_ from relaybox_internal.stream s join relaybox_internal.stream_log l using (stream_id) where l.log_id = log_id_ for update of s;
    select * into head from relaybox_internal.hop_in i where i.log_id = log_id_ for update;
    kept_from := relaybox_internal.log_kept_from(log_id_);
    select * into input_log from relaybox_internal.stream_log l where l.log_id = log_id_;
    select a.batch, a.last_position, a.plan_id into last from relaybox_internal.arrival a
    where a.log_id = log_id_ and a.last_position < kept_from and a.batch < head.published_batch and a.batch < input_log.decided_batch
    order by a.last_position desc limit 1;
    if not found then
        return 0;
    end if;
    delete from relaybox_internal.receipt r where r.log_id = log_id_ and r.batch <= last.batch;
    with forgotten as (
        delete from relaybox_internal.decision d where d.log_id = log_id_ and d.batch <= last.batch returning d.duplicate_count, d.decided_at,
        d.last_stream_position
    ), total as (
        select coalesce(sum(f.duplicate_count), 0) as duplicates, max(f.decided_at) as decided_at, max(f.last_stream_position) as stream_position
            from forgotten f
    )
    update relaybox_internal.stream_log l set
        compacted_duplicates = l.compacted_duplicates + t.duplicates,
        compacted_decided_at = greatest(l.compacted_decided_at, t.decided_at),
        compacted_stream_position = greatest(l.compacted_stream_position, t.stream_position)
    from total t
    where l.log_id = log_id_;
    -- with no older decision left, the time of what was released late is that of what is compacted
    with forgotten as (
        delete from relaybox_internal.late_delivery r
        where r.stream_id = stream_.stream_id and r.delivered_at <= (
            select min(oldest.decided_at)
            from relaybox_internal.stream_log g
            cross join lateral (
                select k.decided_at from relaybox_internal.decision k where k.log_id = g.log_id order by k.decided_at limit 1
            ) oldest
            where g.stream_id = stream_.stream_id
        )
        returning r.delivered_at
    )
    update relaybox_internal.stream_log l set compacted_decided_at = greatest(l.compacted_decided_at, f.newest)
    from (select max(f.delivered_at) as newest from forgotten f) f
    where l.log_id = log_id_ and f.newest is not null;
    delete from relaybox_internal.arrival a where a.log_id = log_id_ and a.batch <= last.batch;
    get diagnostics gone = row_count;
    delete from relaybox_internal.delivery d
    where d.stream_id = stream_.stream_id and d.log_id = log_id_
        and d.last_stream_position < least(stream_.dropped_stream_position + 1, stream_.last_stream_position)
        and coalesce((select max(u.at) from unnest(d.log_positions) u (at)),
        d.first_position + d.last_stream_position - d.first_stream_position) < kept_from;
    delete from relaybox_internal.index_range r using relaybox_internal.sender_state s
    where s.stream_id = stream_.stream_id and s.origin = input_log.origin and r.sender_id = s.sender_id and r.last_position < kept_from;
    update relaybox_internal.hop_in set compacted_batch = last.batch, compacted_position = last.last_position, compacted_plan_id = last.plan_id
    where log_id = log_id_;
    return gone;
end
$$;
