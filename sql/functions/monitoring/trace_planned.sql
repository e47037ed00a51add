-- The slice of a batch that reads a row, and the log position of that row: counted from the nearer end
-- of the slice, or from its last row where retention has dropped the first. Each count is a statement
-- of its own: only the segments that it reads are planned for. Reads no payload, so that a viewer may
-- call it.
create or replace function relaybox_internal.trace_planned(
    planned relaybox_internal.batch, reads_log boolean, reads bigint,
    out slice integer, out log_position bigint
)
language plpgsql stable
set plan_cache_mode = force_custom_plan -- only the segments of the slice are looked at
as $$
declare
    slice_ record;
begin
    select * into slice_ from relaybox_internal.batch_slices(planned.slices) s
    where s.first_read <= reads and s.last_read >= reads;
    slice := slice_.slice;
    if reads_log then
        log_position := reads - slice_.first_read + slice_.first_position;
    elsif slice_.last_read - reads < reads - slice_.first_read
        or slice_.first_read < (select s.first_kept_seq from relaybox_internal.store s) then
        log_position := (
            select slice_.first_position + slice_.row_count - 1 - count(*)
            from relaybox_internal.sent_rows o
            where o.seq > reads and o.seq <= slice_.last_read
                and o.topic = any(planned.topics)
                and pg_visible_in_snapshot(o.xid, planned.upper)
                and not pg_visible_in_snapshot(o.xid, planned.lower)
        );
    else
        log_position := (
            select slice_.first_position - 1 + nullif(count(*), 0)
            from relaybox_internal.sent_rows o
            where o.seq >= slice_.first_read and o.seq <= reads
                and o.topic = any(planned.topics)
                and pg_visible_in_snapshot(o.xid, planned.upper)
                and not pg_visible_in_snapshot(o.xid, planned.lower)
        );
    end if;
end
$$;
