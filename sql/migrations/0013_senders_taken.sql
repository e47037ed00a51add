-- post: a column goes
-- When a log's declarations of senders were last asked for, as a number of the stream: a clock that steps back can change no decision.

alter table relaybox.stream_log drop column senders_seen_at, add column senders_taken bigint;

comment on column relaybox.stream_log.senders_taken is
'stream.taken before the source was asked last: what had arrived by then names no sender that the source declares later';
