-- Removes from the ledgers the batches of a log of which no message is kept or detached: receipts,
-- arrivals, decisions, runs of stream positions, ranges of indexes. Their counts stay. Returns the
-- number of batches; again: 0. Locks the stream, then the hop (docs/protocol.md).
create or replace function relaybox_internal.compact_log_ledgers(log_id_ integer) returns bigint
language plpgsql volatile
set lock_timeout = '500ms'
as $$
declare
    hop_ relaybox_internal.hop_in;
    input_log relaybox_internal.stream_log;
    stream_ relaybox_internal.stream;
    last record;
    removed bigint;
    kept_from bigint;
begin
    perform relaybox_internal.require_writable_primary();
    perform set_config('synchronous_commit', 'local', true);
    select s.* into stream_ from relaybox_internal.stream s
    join relaybox_internal.stream_log l using (stream_id) where l.log_id = log_id_ for update of s;
    select * into hop_ from relaybox_internal.hop_in i where i.log_id = log_id_ for update;
    kept_from := relaybox_internal.log_kept_from(log_id_);
    select * into input_log from relaybox_internal.stream_log l where l.log_id = log_id_;
    select a.batch, a.last_position, a.plan_id into last from relaybox_internal.arrival a
    where a.log_id = log_id_ and a.last_position < kept_from
        and a.batch < hop_.published_batch and a.batch < input_log.decided_batch
    order by a.last_position desc limit 1;
    if not found then
        return 0;
    end if;
    delete from relaybox_internal.receipt r where r.log_id = log_id_ and r.batch <= last.batch;
    perform relaybox_internal.compact_decisions(log_id_, last.batch);
    perform relaybox_internal.compact_late_deliveries(stream_.stream_id, log_id_);
    delete from relaybox_internal.arrival a where a.log_id = log_id_ and a.batch <= last.batch;
    get diagnostics removed = row_count;
    delete from relaybox_internal.nonconforming_message n
    where n.log_id = log_id_ and n.log_position <= last.last_position;
    delete from relaybox_internal.delivery d
    where d.stream_id = stream_.stream_id and d.log_id = log_id_
        and d.last_stream_position
        < least(stream_.dropped_stream_position + 1, stream_.last_stream_position)
        and coalesce(
            (select max(listed.at) from unnest(d.log_positions) listed (at)),
            d.first_position + d.last_stream_position - d.first_stream_position
        ) < kept_from;
    delete from relaybox_internal.index_range r using relaybox_internal.sender_state s
    where s.stream_id = stream_.stream_id and s.origin = input_log.origin
        and r.sender_id = s.sender_id and r.last_position < kept_from;
    update relaybox_internal.hop_in set
        compacted_batch = last.batch, compacted_position = last.last_position,
        compacted_plan_id = last.plan_id
    where log_id = log_id_;
    return removed;
end
$$;
