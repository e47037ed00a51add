-- Closes ranges of indexes. The log positions of a sender's newest indexes are kept with the
-- sender. A range of 100,000 positions becomes a row of its own.
create or replace function relaybox_internal.close_index_ranges(stream_id_ integer) returns void
language plpgsql volatile
as $$
begin
    with closed as (
        update relaybox_internal.sender_state s
        set range_first_index = null, range_last_index = null, range_first_position = null,
            range_last_position = null
        from (
            select * from relaybox_internal.sender_state o
            where o.stream_id = stream_id_
                and o.range_last_position - o.range_first_position >= 100000
        ) o
        where s.sender_id = o.sender_id
        returning o.sender_id, o.range_first_index, o.range_last_index, o.range_first_position,
            o.range_last_position
    )
    insert into relaybox_internal.index_range (
        sender_id, first_index, last_index, first_position, last_position
    )
    select * from closed;
end
$$;
