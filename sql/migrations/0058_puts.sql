-- pre: adds a table
-- A transaction sends its messages once, however often it is repeated under the same key.

create table relaybox_internal.put (
    sender text not null,
    put_key text not null,
    content text not null,
    message_count integer not null,
    put_at timestamptz not null default clock_timestamp(),
    put_by text not null default session_user,
    constraint put_pkey primary key (sender, put_key),
    constraint put_sender_is_a_plain_name check (sender ~ '^[A-Za-z0-9_.:-]{1,48}$'),
    constraint put_key_of_1_to_1000_bytes check (octet_length(put_key) between 1 and 1000),
    constraint put_content_of_1_to_100_bytes check (octet_length(content) between 1 and 100),
    constraint put_message_count_not_negative check (message_count >= 0)
);
comment on table relaybox_internal.put is
'What record_put() was told: the messages of this key are sent, and are not sent again. Kept for '
'as long as the store exists, since no message is kept that long.';
comment on column relaybox_internal.put.sender is 'Who sent. Each sender has its own keys.';
comment on column relaybox_internal.put.put_key is
'Names the put, 1 to 1,000 bytes. A task of Airflow gives DAG/TASK/MAP_INDEX/RUN.';
comment on column relaybox_internal.put.content is
'A digest of the messages: other messages under the same key are refused.';
comment on column relaybox_internal.put.message_count is 'How many messages it sent.';
comment on column relaybox_internal.put.put_at is 'When they were sent.';
comment on column relaybox_internal.put.put_by is 'The login that sent them.';
grant select on relaybox_internal.put to relaybox_reader;
