-- Records that a segment of the outbox (log_id_ null) or of a log is dropped, or detached, and
-- raises the first row that is kept. Caller: holds lock_segment_readers() and drops the table.
create or replace function relaybox_internal.record_segment_removed(
    log_id_ integer, removed relaybox_internal.dropped_segment, detached boolean
)
returns void
language plpgsql volatile
as $$
declare
    stream_ integer := (
        select l.stream_id from relaybox_internal.stream_log l where l.log_id = log_id_
    );
    stream_position_ bigint;
begin
    if log_id_ is null then
        update relaybox_internal.store set first_kept_seq = removed.last + 1;
        delete from relaybox_internal.sealed_segment s where s.last_seq <= removed.last;
    else
        stream_position_ := relaybox_internal.last_stream_position_through(
            stream_, log_id_, removed.last
        );
        update relaybox_internal.stream s
        set
            first_kept_stream_position = greatest(
                s.first_kept_stream_position, stream_position_ + 1
            ),
            dropped_stream_position = case
                when detached then s.dropped_stream_position
                else greatest(s.dropped_stream_position, stream_position_)
            end
        where s.stream_id = stream_;
        update relaybox_internal.hop_in
        set first_kept_position = removed.last + 1
        where log_id = log_id_;
    end if;
    update relaybox_internal.detached_segment d
    set
        state = case when detached then 'detached' else 'released' end,
        moved_at = clock_timestamp(), moved_by = removed.dropped_by
    where d.log_id = log_id_ and d.first = removed.first;
    if not detached then
        perform relaybox_internal.forget_detached_payloads(log_id_);
        insert into relaybox_internal.dropped_segment
            (segment, hop, first, last, bytes, dropped_by, account)
        values (
            removed.segment,
            (select i.hop from relaybox_internal.hop_in i where i.log_id = log_id_),
            removed.first, removed.last, removed.bytes, removed.dropped_by, removed.account
        );
    end if;
end
$$;
