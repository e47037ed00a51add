-- Gives each sender of the decision that is new to the stream a row of
-- relaybox_internal.sender_state.
create or replace function relaybox_internal.begin_sender_states(stream_id_ integer, origin_ text)
returns void
language plpgsql volatile
as $$
begin
    with begun as (
        insert into relaybox_internal.sender_state (stream_id, sender, epoch, origin, kind)
        select stream_id_, b.sender, b.epoch, origin_, b.kind from pg_temp.decision_sender b
        where b.sender_id is null and b.kind is not null and b.epoch > 0
            and not b.is_of_another_store
        -- a row of another store's sender of this name has accepted nothing: it is replaced
        on conflict (stream_id, sender, epoch) do update
        set origin = excluded.origin, kind = excluded.kind
        returning sender_id, sender, epoch, watermark
    )
    update pg_temp.decision_sender b set sender_id = n.sender_id, watermark = n.watermark
    from begun n where n.sender = b.sender and n.epoch = b.epoch;
end
$$;
