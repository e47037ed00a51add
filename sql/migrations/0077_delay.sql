-- pre: adds columns, an index, and a state and an action that no row has yet
-- A message may say from when it is wanted: the header relaybox-deliver-after.

alter table relaybox_internal.stream add column has_delay boolean not null default false;
comment on column relaybox_internal.stream.has_delay is
'A message with the header relaybox-deliver-after was delivered: fetch looks for those that are not due.';

alter table relaybox_internal.subscription
add column delayed text not null default 'hold',
add constraint delayed_is_known check (delayed in ('hold', 'pass', 'ignore')),
add constraint held_senders_are_not_passed check (delayed <> 'pass' or not hold_sender);
comment on column relaybox_internal.subscription.delayed is
'Of a message that is not due. hold: its lane waits. pass: later ones go on, and it comes when it is '
'due. ignore: it comes at once.';

-- what reads history, or derives, is not for the time of a message
update relaybox_internal.subscription as s
set delayed = 'ignore'
where s.ended_at is null and (
    s.query is not null or s.replay_of is not null
    or s.subscription like 'export.%' and s.crash_limit = 2147483647 or exists (
        select from relaybox_internal.derivation d
        where d.subscription_id = s.subscription_id
    )
);

alter table relaybox_internal.cursor add column due_at timestamptz;
comment on column relaybox_internal.cursor.due_at is
'When the message after done_stream_position is due, if the newest fetch found that it is not: the '
'lane is held until then.';

alter table relaybox_internal.dead_letter
add column due_at timestamptz,
drop constraint state_is_known,
add constraint state_is_known check (
    state in ('open', 'redriving', 'redriven', 'dropped', 'delayed')
);
comment on column relaybox_internal.dead_letter.due_at is
'When the message is due, of one that was delayed and passed. Until then its state is delayed.';
comment on column relaybox_internal.dead_letter.reason is
'One word. Of a subscription: refused (by nack), killed_its_worker, expired, waits_behind, or delayed '
'(not due when its lane passed it). Of a stream: why it did not deliver the message.';

-- Serves fetch: which passed messages are due now, and when the next one is.
create index dead_letter_delayed
on relaybox_internal.dead_letter (subscription_id, lane, due_at) where state = 'delayed';

alter table relaybox_internal.consumer_action
drop constraint action_is_known,
add constraint action_is_known check (
    action in (
        'subscribe', 'unsubscribe', 'replay', 'cancel_replay', 'redrive', 'drop',
        'fetch_one_at_a_time', 'change_delayed'
    )
);
comment on column relaybox_internal.consumer_action.action is
'subscribe, unsubscribe, replay, cancel_replay, redrive, drop, fetch_one_at_a_time or change_delayed.';
