-- What streams and subscriptions of this store set aside, with the messages, as far as their logs are kept. reason is the kind, one word;
-- detail says more, of `refused` what nack gave as its reason.
create or replace view relaybox.dead_letters with (security_barrier) as
select
    d.dead_letter_id as letter, d.state, s.stream, n.subscription, d.lane, d.place, d.reason, d.detail, d.attempts,
    d.first_at, d.last_at, d.last_by, d.settled_at, d.settled_by, d.settled_reason,
    i.hop, d.position, l.message_id, l.topic, l.sender, l.epoch, l.index, l.key, l.payload, l.payload_bytes, l.headers, l.sent_at
from relaybox.dead_letter d
join relaybox.stream s on s.stream_id = d.stream_id
join relaybox.hop_in i on i.hop_id = d.hop_id
left join relaybox.subscription n on n.subscription_id = d.subscription_id
left join relaybox.log l on l.hop_id = d.hop_id and l.position = d.position;
