-- pre: adds a table
-- A write of a DataFrame sends its partitions in their order, so that a repeat with others sends nothing.

create table relaybox_internal.frame_partition (
    sender text not null,
    write_id text not null,
    partition integer not null,
    content text not null,
    message_count bigint not null,
    run uuid not null,
    sent_at timestamptz not null default clock_timestamp(),
    sent_by text not null default session_user,
    constraint frame_partition_pkey primary key (sender, write_id, partition),
    constraint frame_partition_not_negative check (partition >= -1 and message_count >= 0)
);
comment on table relaybox_internal.frame_partition is
'What writes of DataFrames have sent, partition by partition, in their order. Kept for as long as '
'the store exists, since no message is kept that long.';
comment on column relaybox_internal.frame_partition.write_id is
'Names the write: the option write_id, or the query and micro-batch of a streaming query.';
comment on column relaybox_internal.frame_partition.partition is
'From 0. -1: the write is complete, and message_count is its number of partitions.';
comment on column relaybox_internal.frame_partition.content is
'A digest of the messages: other messages of the same partition are refused.';
comment on column relaybox_internal.frame_partition.run is
'The run of the write that has sent the partition, or found it sent with the same messages.';
grant select on relaybox_internal.frame_partition to relaybox_reader;
