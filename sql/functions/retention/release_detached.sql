-- Releases detached segments of a log that no holder needs any more: their files may be removed.
-- Returns their number; again: 0. Locks the stream, then the hop (docs/protocol.md).
create or replace function relaybox_internal.release_detached(log_id_ integer, recorded_by text)
returns bigint
language plpgsql volatile
set lock_timeout = '500ms'
as $$
declare
    needed bigint;
    last_ bigint;
    released bigint;
begin
    perform relaybox_internal.require_writable_primary();
    if not exists (
        select from relaybox_internal.detached_segment d
        where d.log_id = log_id_ and d.state in ('detaching', 'detached')
    ) then
        return 0;
    end if;
    perform relaybox_internal.lock_stream_and_hop(log_id_);
    -- a later statement than the locks: a subscription or replay comes before or after it
    select min(h.needs_from) into needed from relaybox_internal.holders(log_id_) h;
    with gone as (
        update relaybox_internal.detached_segment d
        set state = 'released', moved_at = clock_timestamp(), moved_by = recorded_by
        where d.log_id = log_id_ and (
            d.state = 'detached' and (d.last >= needed) is not true
            -- its consumer came back meanwhile; an attempt that still writes files is superseded
            or d.state = 'detaching' and not exists (
                select from relaybox_internal.detachable_segments(log_id_) s
                where s.first = d.first
            )
        )
        returning d.last, d.first
    )
    select max(g.last), count(*) into last_, released from gone g
    where g.last < (
        select i.first_kept_position from relaybox_internal.hop_in i where i.log_id = log_id_
    );
    update relaybox_internal.stream s
    set dropped_stream_position = greatest(
        s.dropped_stream_position,
        relaybox_internal.last_stream_position_through(s.stream_id, log_id_, last_)
    )
    where last_ is not null and s.stream_id = (
        select l.stream_id from relaybox_internal.stream_log l where l.log_id = log_id_
    );
    perform relaybox_internal.forget_detached_payloads(log_id_);
    return released;
end
$$;
