-- Returns whether a stalled sender of a log can go on without a new batch.
create or replace function relaybox_internal.has_sender_to_resume(stream_ integer, origin_ text)
returns boolean
language sql stable
as $$
    select exists (
        select from relaybox_internal.sender_state s
        join relaybox_internal.stream t using (stream_id)
        where s.stream_id = stream_ and s.origin = origin_ and t.delivery_order = 'causal'
            and s.stalled_reason = 'holdback_full'
            and (
                s.watermark > s.stalled_watermark
                or not exists (
                    select from relaybox_internal.held h where h.sender_id = s.sender_id
                )
            )
    )
$$;
