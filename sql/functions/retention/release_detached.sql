-- Lets go of detached segments of a log that nobody needs any more: their files may be removed. Returns how many; again: none. Locks the rows
-- that publish and deliver lock.
create or replace function relaybox.release_detached(log_id_ integer, recorded_by text) returns bigint
language plpgsql volatile
set lock_timeout = '500ms'
as $$
declare
    needed bigint;
    last_ bigint;
    released bigint;
begin
    perform relaybox.require_writable_primary();
    if not exists (select from relaybox.detached_segment d where d.log_id = log_id_ and d.state in ('detaching', 'detached')) then
        return 0;
    end if;
    perform from relaybox.hop_in i where i.log_id = log_id_ for update;
    perform from relaybox.stream s where s.stream_id = (select l.stream_id from relaybox.stream_log l where l.log_id = log_id_) for update;
    -- a later statement than the locks: who subscribes or replays comes before or after
    select min(h.needs_from) into needed from relaybox.holders(log_id_) h;
    with gone as (
        update relaybox.detached_segment d set state = 'released', moved_at = clock_timestamp(), moved_by = recorded_by
        where d.log_id = log_id_ and (
            d.state = 'detached' and (d.last >= needed) is not true
            -- whose consumer came back meanwhile; who still writes its files is superseded
            or d.state = 'detaching' and not exists (select from relaybox.detachable_segments(log_id_) s where s.first = d.first)
        )
        returning d.last, d.first
    )
    select max(g.last), count(*) into last_, released from gone g
    where g.last < (select i.first_kept_position from relaybox.hop_in i where i.log_id = log_id_);
    update relaybox.stream s set dropped_stream_position = greatest(s.dropped_stream_position,
    relaybox.last_stream_position_through(s.stream_id, log_id_, last_))
    where last_ is not null and s.stream_id = (select l.stream_id from relaybox.stream_log l where l.log_id = log_id_);
    return released;
end
$$;
