-- Whether a causal stream has a sender of this origin that stalled with a full holdback and has come further since, or holds nothing of
-- it any more: what it waited for came from others. What waits in the log behind it can be taken up.
create or replace function relaybox_internal.has_sender_to_resume(stream_ integer, origin_ text) returns boolean
language sql stable
as $$
    select exists (
        select from relaybox_internal.sender_state s
        join relaybox_internal.stream t using (stream_id)
        where s.stream_id = stream_ and s.origin = origin_ and t.delivery_order = 'causal' and s.stalled_reason = 'holdback_full'
            and (s.watermark > s.stalled_watermark or not exists (select from relaybox_internal.held h where h.sender_id = s.sender_id))
    )
$$;
