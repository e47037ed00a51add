-- post: delivery times are written by the new functions only
-- The time of a delivery never goes back in the order of places, whatever the store's clock does: a time stands for one place.

-- What is released without a new batch is counted with the newest decision, which is older.
create table relaybox.late_delivery (
    stream_id integer not null references relaybox.stream (stream_id) on delete cascade,
    delivered_at timestamptz not null,
    after_place bigint not null,
    constraint late_delivery_pkey primary key (stream_id, delivered_at, after_place)
);
comment on table relaybox.late_delivery is
'places of a stream beyond after_place were delivered at delivered_at or later, also where the decision that they are counted with is older';

-- Serves "up to which place was delivered before this time", also among decisions of the same time.
drop index relaybox.decision_decided_at;
create index decision_decided_at on relaybox.decision (hop_id, decided_at, last_place);

update relaybox.decision d
set decided_at = newest.decided_at
from (
    select k.hop_id, k.batch, max(k.decided_at) over (partition by l.stream_id order by k.first_taken) as decided_at
    from relaybox.decision k join relaybox.stream_log l on l.hop_id = k.hop_id
) newest
where newest.hop_id = d.hop_id and newest.batch = d.batch and d.decided_at < newest.decided_at;
