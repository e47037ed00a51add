-- post: a constraint that plans rely on changes
-- A hop that reads a log may find there, after a restore, messages that its destination has at other positions.
alter table relaybox.hop_out
add column read_ahead int8multirange not null default '{}',
add column compacted_read bigint not null default 0,
add constraint only_a_log_is_read_ahead check (reads_log is not null or read_ahead = '{}');

comment on column relaybox.hop_out.read_ahead is
'a hop that reads a log: positions of it beyond the last one read which the destination has already; batches leave them out';
comment on column relaybox.hop_out.compacted_read is
'a hop that reads a log: the position of it through which the batches that are no longer in the ledger had read';

-- of a log it is known which of its messages an adopted batch had; of an outbox nobody knows
alter table relaybox.batch
drop constraint batch_has_slices,
add constraint batch_has_slices check (adopted or jsonb_array_length(slices) > 0);
