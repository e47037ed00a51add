-- pre: adds a column
-- A subscription to all of a stream that lost a topic to another stream is named. One that was made later never had it.

alter table relaybox_internal.stream_topic add column left_after_subscription integer;
comment on column relaybox_internal.stream_topic.left_after_subscription is
'The newest subscription of this store when init took the topic from the stream for the last time: '
'those up to it lost the topic. Null: it did not, or before this column was added.';
