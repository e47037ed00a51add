-- Lets go of detached segments of a log that nobody needs any more: their files may be removed. Returns how many; again: none. Locks the rows
-- that publish and deliver lock.
create or replace function relaybox.release_detached(log_id integer, recorded_by text) returns bigint
language plpgsql volatile
set lock_timeout = '500ms'
as $$
declare
    needed bigint;
    last_ bigint;
    released bigint;
begin
    perform relaybox.require_writable_primary();
    if not exists (select from relaybox.detached_segment d where d.hop_id = log_id and d.state in ('detaching', 'detached')) then
        return 0;
    end if;
    perform from relaybox.hop_in i where i.hop_id = log_id for update;
    perform from relaybox.stream s where s.stream_id = (select l.stream_id from relaybox.stream_log l where l.hop_id = log_id) for update;
    -- a later statement than the locks: who subscribes or replays comes before or after
    select min(h.needs_from) into needed from relaybox.holders(log_id) h;
    with gone as (
        update relaybox.detached_segment d set state = 'released', moved_at = clock_timestamp(), moved_by = recorded_by
        where d.hop_id = log_id and (
            d.state = 'detached' and (d.last >= needed) is not true
            -- whose consumer came back meanwhile; who still writes its files is superseded
            or d.state = 'detaching' and not exists (select from relaybox.detachable_segments(log_id) s where s.first = d.first)
        )
        returning d.last, d.first
    )
    select max(g.last), count(*) into last_, released from gone g
    where g.last < (select i.first_kept_position from relaybox.hop_in i where i.hop_id = log_id);
    update relaybox.stream s set dropped_place = greatest(s.dropped_place, relaybox.last_place_through(s.stream_id, log_id, last_))
    where last_ is not null and s.stream_id = (select l.stream_id from relaybox.stream_log l where l.hop_id = log_id);
    return released;
end
$$;
