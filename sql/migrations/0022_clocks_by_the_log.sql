-- A clock is judged by the log alone, so nobody has to know any more when declarations were last asked for.

alter table relaybox.stream_log drop column senders_taken;
