-- Moves a watermark over the indexes after it that operators gave up, or that were set aside before
-- their turn.
create or replace function relaybox_internal.pass_skipped_indexes(stream_id_ integer) returns void
language plpgsql volatile
as $$
begin
    update relaybox_internal.sender_state s set watermark = upper(k.indexes) - 1
    from (
        select o.sender_id, k.indexes
        from relaybox_internal.sender_state o
        cross join unnest(o.skipped) k (indexes)
        where o.stream_id = stream_id_
    ) k
    where s.sender_id = k.sender_id and k.indexes @> s.watermark + 1;
end
$$;
