-- Moves the watermark of a sender over the accepted indexes that follow it without a gap, removes
-- the chunks before it, and counts what is left. Rows of relaybox_internal.seen have chunks of 4096
-- indexes.
create or replace function relaybox_internal.pass_seen_indexes(
    sender_id_ integer, watermark_ bigint
)
returns void
language plpgsql volatile
as $$
declare
    next_index bigint := watermark_ + 1;
    covered int8range;
begin
    loop
        select r into covered
        from relaybox_internal.seen n, unnest(n.indexes) r
        where n.sender_id = sender_id_ and n.chunk = next_index >> 12 and r @> next_index;
        exit when not found;
        next_index := upper(covered);
    end loop;
    delete from relaybox_internal.seen n
    where n.sender_id = sender_id_ and n.chunk < next_index >> 12;
    update relaybox_internal.sender_state s
    set watermark = next_index - 1, fragment_count = c.fragments, seen_beyond = c.fragments
    from (
        select coalesce(sum(n.fragments), 0) - coalesce(sum((
            select count(*)
            from unnest(n.indexes) r
            where upper(r) <= next_index and n.chunk = next_index >> 12
        )), 0) as fragments
        from relaybox_internal.seen n
        where n.sender_id = sender_id_
    ) c
    where s.sender_id = sender_id_;
end
$$;
