-- pre: allows more than before
-- Policy `processed`: a hop settles only what named subscriptions at its destination have acknowledged.

alter table relaybox.hop_out
add column processed_by text[],
drop constraint policy_is_known,
add constraint policy_is_known check (policy in ('received', 'cascade', 'processed')),
add constraint processed_by_somebody check (processed_by is null or policy = 'processed' and cardinality(processed_by) > 0);

comment on column relaybox.hop_out.processed_by is
'subscriptions at the destination, the last store of a route with policy processed; null: the hop asks none';

alter table relaybox.confirmation
drop constraint state_is_known,
add constraint state_is_known check (state in ('received', 'processed', 'settled'));

alter table relaybox.decision add column resolved_position bigint;

comment on column relaybox.decision.resolved_position is
'every message of the log up to it was delivered, dropped or set aside when this was decided: none was held or waited; null: not asked then';

-- Serves "whose messages wait in a log", asked with each decision.
create index sender_state_stalled on relaybox.sender_state (stream_id) where stalled_after is not null;
