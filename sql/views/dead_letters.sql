-- What streams and subscriptions of this store set aside, and the delayed messages that subscriptions
-- passed, with the messages, as far as their logs
-- are kept, and as far as the role of this session may see them: of subscriptions that it is bound
-- to, or of streams that it is an operator of; and of topics that it was granted. reason is the kind,
-- one word; detail says more, of `refused` what nack gave as its reason.
create or replace view relaybox.dead_letters with (security_barrier) as
select
    d.dead_letter_id, d.state, s.stream, n.subscription, d.lane, d.stream_position, d.reason, d.detail, d.attempts,
    d.first_at, d.last_at, d.last_by, d.resolved_at, d.resolved_by, d.resolved_reason,
    i.hop, d.log_position, l.message_id, l.topic, l.sender, l.epoch, l.index, l.key, l.payload, l.payload_bytes, l.headers, l.sent_at,
    d.due_at
from relaybox_internal.dead_letter d
join relaybox_internal.stream s on s.stream_id = d.stream_id
join relaybox_internal.hop_in i on i.log_id = d.log_id
left join relaybox_internal.subscription n on n.subscription_id = d.subscription_id
-- offset 0: no condition of who reads the view is asked of a message of another topic (relaybox.inbox)
left join lateral (
    select m.*
    from relaybox_internal.log m
    where
        m.log_id = d.log_id and m.log_position = d.log_position
        and (
            exists (
                select from relaybox_internal.allowed_topics a
                where a.topic = '*'
            )
            or m.topic in (select a.topic from relaybox_internal.allowed_topics a)
        )
    offset 0 -- noqa: AM09
) l on true
where
    (
        (select scope.sees_all from relaybox_internal.acting_role scope)
        or d.stream_id in (select o.stream_id from relaybox_internal.allowed_streams o)
        -- offset 0: the subscription of each letter is looked up; the list of all may have ended ones by
        -- the ten thousand
        or exists (
            select from relaybox_internal.bound_subscriptions b
            where b.subscription_id = d.subscription_id
            offset 0 -- noqa: AM09
        )
    )
    and (
        exists (
            select from relaybox_internal.allowed_topics a
            where a.topic = '*'
        )
        -- of a message that is no longer kept the one topic of the subscription is known, or nothing
        or coalesce(l.topic, n.topic) in (select a.topic from relaybox_internal.allowed_topics a)
    );

comment on view relaybox.dead_letters is
'Messages that a stream or a subscription of this store set aside, and delayed ones that a subscription '
'passed. relaybox.redrive gives them again, relaybox.drop_dead_letter gives one up.';
comment on column relaybox.dead_letters.dead_letter_id is
'Number of the dead letter, for redrive and drop_dead_letter.';
comment on column relaybox.dead_letters.state is
'open, redriving (given to consumers again), redriven (acknowledged then), dropped (given up) or '
'delayed (given when it is due).';
comment on column relaybox.dead_letters.stream is 'The stream.';
comment on column relaybox.dead_letters.subscription is
'The subscription; null: the stream itself set the message aside.';
comment on column relaybox.dead_letters.lane is 'Lane of the subscription.';
comment on column relaybox.dead_letters.stream_position is
'Stream position of the message; null: the stream itself set it aside.';
comment on column relaybox.dead_letters.reason is
'Kind, one word: refused, killed_its_worker, expired, waits_behind, or delayed (not due when its lane '
'passed it); of a stream, why it did not deliver the message.';
comment on column relaybox.dead_letters.detail is
'In words; for refused, the reason that the last nack gave.';
comment on column relaybox.dead_letters.attempts is
'Number of deliveries that failed; 0: it waits behind another one, or expired before it was fetched.';
comment on column relaybox.dead_letters.first_at is
'When the message was fetched first, as far as known; if it waits behind another, or is the '
'stream''s own: when it was set aside.';
comment on column relaybox.dead_letters.last_at is 'When it was refused or set aside last.';
comment on column relaybox.dead_letters.last_by is 'The worker that had it then, or the login.';
comment on column relaybox.dead_letters.resolved_at is
'When it was redriven and acknowledged, or dropped.';
comment on column relaybox.dead_letters.resolved_by is
'The login that dropped it; null: nobody did.';
comment on column relaybox.dead_letters.resolved_reason is 'Why it was dropped.';
comment on column relaybox.dead_letters.hop is 'The hop in whose log the message is.';
comment on column relaybox.dead_letters.log_position is 'Its number in that log.';
comment on column relaybox.dead_letters.message_id is
'Made by the producer or its store; the same in every store and replay; null when no longer kept.';
comment on column relaybox.dead_letters.topic is 'As sent; null when no longer kept.';
comment on column relaybox.dead_letters.sender is 'As sent; null when no longer kept.';
comment on column relaybox.dead_letters.epoch is
'Of the sender''s numbering; 0: the sender has none, and index is the position in the first log.';
comment on column relaybox.dead_letters.index is 'The sender''s number of the message.';
comment on column relaybox.dead_letters.key is 'As sent; may be null.';
comment on column relaybox.dead_letters.payload is 'As sent, if it is text.';
comment on column relaybox.dead_letters.payload_bytes is 'As sent, if it is bytes.';
comment on column relaybox.dead_letters.headers is 'As sent; may be null.';
comment on column relaybox.dead_letters.sent_at is
'When the row was inserted at the origin, by the clock of that server; null when no longer kept.';
comment on column relaybox.dead_letters.due_at is
'When a delayed message that was passed is due; else null.';
