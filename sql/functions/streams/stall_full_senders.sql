-- Counts the held messages of each sender that was classified. A sender whose holdback or set of
-- indexes is full stalls: its messages after the last position of the batch wait in their log.
create or replace function relaybox_internal.stall_full_senders(
    stream relaybox_internal.stream, last_position_ bigint
)
returns void
language plpgsql volatile
as $$
begin
    update relaybox_internal.sender_state s set
        held_count = counted.held_count,
        stalled_after = case when counted.reason is not null then last_position_ end,
        stalled_reason = counted.reason,
        stalled_watermark = case when counted.reason is not null then s.watermark end
    from (
        select o.sender_id, count(h.log_position) as held_count,
            case
                when count(h.log_position) >= stream.holdback_rows then 'holdback_full'
                when o.fragment_count > stream.fragments then 'set_full'
            end as reason
        from relaybox_internal.sender_state o
        left join relaybox_internal.held h on h.sender_id = o.sender_id
        where o.stream_id = stream.stream_id and o.stalled_after is null
            and o.sender_id in (
                select j.sender_id from pg_temp.classified j
                union all
                select d.sender_id from pg_temp.sorted_sender d
            )
        group by o.sender_id
    ) counted
    where s.sender_id = counted.sender_id;
end
$$;
