-- Lists what a message's clock names and is not delivered in the stream: the index of another
-- sender, how far that sender has come (null: nothing of it was accepted), and the store of the
-- stream where it was declared (null: none).
create or replace function relaybox_internal.unmet_causes(
    stream_id_ integer, log_id_ integer, log_position_ bigint
)
returns table (sender text, epoch integer, index bigint, watermark bigint, origin text)
language sql stable
as $$
    select
        e.sender, e.epoch, relaybox_internal.index_to_resolve(s.skipped, e.index), s.watermark, (
            select min(d.origin)
            from relaybox_internal.sender d
            join relaybox_internal.stream_log i on i.origin = d.origin
            where i.stream_id = stream_id_ and d.sender = e.sender and d.epoch = e.epoch
        )
    from relaybox_internal.log l
    cross join relaybox_internal.clock_entries(l.clock) e
    left join relaybox_internal.sender_state s on s.stream_id = stream_id_ and s.sender = e.sender
        and s.epoch = e.epoch
    where l.log_id = log_id_ and l.log_position = log_position_ and e.sender <> l.sender
        and (s.watermark >= relaybox_internal.index_to_resolve(s.skipped, e.index)) is not true
        and not exists (
            select from relaybox_internal.sender_state n
            where n.stream_id = stream_id_ and n.sender = e.sender and n.epoch > e.epoch
                and n.begun_at is not null
        )
$$;
