-- The held messages that may be released now: all of the stream, or those of senders that the batch
-- brings out of order or whose epoch ends. Inlined in classify_rows().
create or replace function relaybox_internal.list_held(stream_id_ integer, is_every boolean)
returns table (
    arrival_seq bigint, log_id integer, log_position bigint, sender_id integer, epoch integer,
    index bigint, is_new boolean, watermark bigint,
    is_given_up boolean, original_position bigint, outcome text
)
language sql stable
as $$
    select
        h.arrival_seq, h.log_id, h.log_position, h.sender_id, s.epoch, h.index, false, s.watermark,
        s.skipped @> h.index, null::bigint, null::text
    from relaybox_internal.held h
    join relaybox_internal.sender_state s on s.sender_id = h.sender_id
    where h.stream_id = stream_id_ and (
        is_every
        or exists (select from pg_temp.epoch_end e where e.sender_id = h.sender_id)
        or exists (
            select
            from pg_temp.decision_sender b where b.sender_id = h.sender_id and not b.is_in_order
        )
    )
        and not exists (select from pg_temp.sorted_sender o where o.sender_id = h.sender_id)
$$;
