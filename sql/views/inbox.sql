-- Every published message of every log in this store, as far as the role of this session may read
-- its topic. A staged row is never in it. The planner orders the conditions of a row by their cost, and
-- a cheap leakproof one of who reads the view (=, <) comes first where the view's costs more: EXPLAIN
-- ANALYZE would then tell whether a hidden message meets it. A jsonb costs one operator; of equal
-- costs the view's comes first.
create or replace view relaybox.inbox with (security_barrier) as
select
    i.hop, l.log_position, l.message_id, l.topic, l.sender, l.epoch, l.index,
    l.key, l.payload, l.payload_bytes, l.headers, l.clock, l.sent_at
from relaybox_internal.hop_in i
join relaybox_internal.log l on l.log_id = i.log_id and l.log_position <= i.published_position
where
    exists (
        select from relaybox_internal.allowed_topics a
        where a.topic = '*'
    )
    or (select jsonb_agg(a.topic) from relaybox_internal.allowed_topics a) ? l.topic;

comment on view relaybox.inbox is
'Every published message of every log in this store, duplicates included; where topics are granted '
'to roles, only those of topics that the role was granted. To read a stream in order, use '
'relaybox.fetch or relaybox.read_stream.';
comment on column relaybox.inbox.hop is 'The hop whose log it is, such as flights/1.';
comment on column relaybox.inbox.log_position is
'Number of the message in that log: 1, 2, 3 ... without a gap.';
comment on column relaybox.inbox.message_id is
'Made by the producer or its store; the same in every store and replay.';
comment on column relaybox.inbox.topic is 'As sent.';
comment on column relaybox.inbox.sender is 'As sent.';
comment on column relaybox.inbox.epoch is
'Of the sender''s numbering; 0: the sender has none, and index is the position in the first log.';
comment on column relaybox.inbox.index is 'The sender''s number of the message.';
comment on column relaybox.inbox.key is 'As sent; may be null.';
comment on column relaybox.inbox.payload is 'As sent, if it is text.';
comment on column relaybox.inbox.payload_bytes is 'As sent, if it is bytes.';
comment on column relaybox.inbox.headers is 'As sent; may be null.';
comment on column relaybox.inbox.clock is
'What the sender had received when it sent: {"sender": index} or {"sender": [epoch, index]}; may '
'be null.';
comment on column relaybox.inbox.sent_at is
'When the row was inserted at the origin, by the clock of that server.';
