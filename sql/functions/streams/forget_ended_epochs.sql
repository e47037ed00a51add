-- Removes what a stream keeps of epochs that ended: they get no message any more.
create or replace function relaybox_internal.forget_ended_epochs() returns void
language plpgsql volatile
as $$
begin
    delete from relaybox_internal.seen n using pg_temp.epoch_end e where n.sender_id = e.sender_id;
    delete from relaybox_internal.index_range n
    using pg_temp.epoch_end e
    where n.sender_id = e.sender_id;
    update relaybox_internal.sender_state s
    set fragment_count = 0, seen_beyond = 0, range_first_index = null, range_last_index = null,
        range_first_position = null, range_last_position = null
    from pg_temp.epoch_end e where s.sender_id = e.sender_id;
end
$$;
