-- post: a column goes
-- A clock is judged by the log alone, so nobody has to know any more when declarations were last asked for.

alter table relaybox.stream_log drop column senders_taken;

-- Each entry of a clock costs time at every store, so that their number has a bound that the sender hears of.
alter table relaybox.outbox add constraint clock_names_at_most_1000_senders
check (jsonb_array_length(jsonb_path_query_array(clock, '$.keyvalue()', '{}', true)) <= 1000);
