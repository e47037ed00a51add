-- Finds what a hop delivered beyond a batch (temporary table relaybox_adopted, made by the caller)
-- in the log that the hop reads. Matches by message and not by position: after a restore a message
-- may be at another position. A message that was sent twice is found twice. Returns how far the log
-- was read with that batch, through which position it was searched, and what the destination has of
-- it beyond `read_through`. Caller holds the hop's row. Raises RB011 if retention has dropped a
-- part of the log that has to be searched.
create or replace function relaybox_internal.match_adopted(
    hop_name text, common_batch bigint, out read_through bigint, out searched_through bigint,
    out read_ahead int8multirange
)
language plpgsql volatile
as $$
declare
    head relaybox_internal.hop_out;
    first_kept bigint;
    ahead int8multirange;
begin
    select * into head from relaybox_internal.hop_out h where h.hop = hop_name;
    select i.published_position, i.first_kept_position into searched_through, first_kept
    from relaybox_internal.hop_in i where i.log_id = head.reads_log;
    read_through := case
        when common_batch = head.compacted_batch then head.compacted_read
        when common_batch < head.compacted_batch then 0
        else (
            select b.reads_through
            from relaybox_internal.batch b where b.hop = hop_name and b.batch = common_batch
        )
    end;
    if first_kept > read_through + 1 then
        raise exception using errcode = 'RB011',
            message = format(
                'hop %s: both stores know its batches through position %s of the log it reads, '
                'which keeps messages only from position %s on: '
                'retention has dropped what is between',
                hop_name, read_through, first_kept
            ),
            hint = 'Restore the store that lost history to a later time.';
    end if;
    select coalesce(range_agg(int8range(s.first_read, s.last_read, '[]')), '{}') into ahead
    from relaybox_internal.batch b, relaybox_internal.batch_slices(b.slices) s
    where b.hop = hop_name and b.batch <= common_batch and b.adopted
        and s.last_read > match_adopted.read_through;
    ahead := ahead - int8multirange(int8range(0, read_through, '[]'));
    update relaybox_adopted a set reads = m.reads, is_ghost = false
    from (
        select d.log_position, r.reads
        from (
            select f.log_position, f.message_id, f.sent_at,
                row_number() over (
                    partition by f.message_id, f.sent_at order by f.log_position
                ) as copy
            from relaybox_adopted f
        ) d
        join (
            select l.log_position as reads, l.message_id, l.sent_at,
                row_number() over (
                    partition by l.message_id, l.sent_at order by l.log_position
                ) as copy
            from relaybox_internal.log l
            where l.log_id = head.reads_log and l.log_position > match_adopted.read_through
                and l.log_position <= searched_through
                and not ahead @> l.log_position
        ) r using (message_id, sent_at, copy)
    ) m
    where a.log_position = m.log_position;
    read_ahead := ahead;
end
$$;
