-- What is released or set aside is held no longer; what is neither is held from now on.
create or replace function relaybox.renew_holdback(stream_id_ integer) returns void
language plpgsql volatile
as $$
begin
    delete from relaybox.held h using pg_temp.classified j
    where not j.is_new and (j.release_seq is not null or j.outcome is not null) and h.hop_id = j.hop_id and h.position = j.position;
    insert into relaybox.held (hop_id, "position", stream_id, sender_id, index, taken)
    select j.hop_id, j.position, stream_id_, j.sender_id, j.index, j.arrival_seq
    from pg_temp.classified j where j.is_new and j.release_seq is null and j.outcome is null;
end
$$;
