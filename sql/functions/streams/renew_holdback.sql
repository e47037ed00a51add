-- Removes from the holdback what is released or set aside, and adds the classified messages that
-- are neither.
create or replace function relaybox_internal.renew_holdback(stream_id_ integer) returns void
language plpgsql volatile
as $$
begin
    delete from relaybox_internal.held h using pg_temp.classified j
    where not j.is_new and (j.release_seq is not null or j.outcome is not null)
        and h.log_id = j.log_id and h.log_position = j.log_position;
    delete from relaybox_internal.held h using pg_temp.sorted_sender o
    where h.sender_id = o.sender_id and h.index <= o.last_released;
    insert into relaybox_internal.held (
        log_id, log_position, stream_id, sender_id, index, arrival_seq
    )
    select j.log_id, j.log_position, stream_id_, j.sender_id, j.index, j.arrival_seq
    from pg_temp.classified j where j.is_new and j.release_seq is null and j.outcome is null;
end
$$;
