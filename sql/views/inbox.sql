-- Every published message of every log in this store. A staged row is never in it.
create or replace view relaybox.inbox with (security_barrier) as
select
    i.hop, l.position, l.message_id, l.topic, l.sender, l.epoch, l.index,
    l.key, l.payload, l.payload_bytes, l.headers, l.clock, l.sent_at
from relaybox.hop_in i
join relaybox.log l on l.hop_id = i.hop_id and l.position <= i.published_position;
