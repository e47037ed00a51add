-- Whether a causal stream holds a message whose clock names a sender that no store of the stream has declared, although each of
-- them has brought its declarations since the message came.
create or replace function relaybox.holds_unknown_causes(here relaybox.stream) returns boolean
language sql stable
as $$
    select here.delivery_order = 'causal' and exists (
        select from relaybox.held h
        join relaybox.log l on l.hop_id = h.hop_id and l.position = h.position
        cross join relaybox.clock_entries(l.clock) e
        where h.stream_id = here.stream_id
            and h.taken <= (select min(coalesce(i.senders_taken, 0)) from relaybox.stream_log i where i.stream_id = here.stream_id)
            and not exists (
                select from relaybox.sender d
                join relaybox.stream_log i on i.stream_id = here.stream_id and i.origin = d.origin
                where d.sender = e.sender and d.epoch = e.epoch
            )
    )
$$;
