-- The decision of a store about a position of a log: delivered at a stream position, a duplicate of
-- an earlier position, set aside, held, stalled (it waits behind its stalled sender), dropped by
-- retention, lost, or undecided. No row: the hop's stream is not registered here. waits_for: what
-- must be delivered before a held message, [{sender, epoch, first_index, last_index}]. not_due: the
-- subscriptions that found a delivered message delayed, [{subscription, due_at}]. Planned with the
-- position, so that only its segment of the log is looked at.
create or replace function relaybox_internal.trace_delivery(hop_name text, log_position_ bigint)
returns table (
    stream text, delivery_order text, delivery_state text, stream_position bigint,
    duplicate_of bigint, reason text, decided_at timestamptz, waits_for jsonb, not_due jsonb
)
language plpgsql stable
set plan_cache_mode = force_custom_plan
as $$
declare
    log_id_ integer;
    message record;
begin
    select l.log_id into log_id_
    from relaybox_internal.stream_log l
    join relaybox_internal.hop_in i on i.log_id = l.log_id
    where i.hop = hop_name;
    if not found then
        return;
    end if;
    select m.sender, m.epoch, m.index, m.message_id into message
    from relaybox_internal.log m
    where m.log_id = log_id_ and m.log_position = log_position_;
    return query
    select
        s.stream, s.delivery_order,
        case
            when delivered.stream_position is not null then 'delivered'
            when letter.reason is not null then 'set_aside'
            when held.log_position is not null then 'held'
            when duplicate.log_position is not null then 'duplicate'
            when sender.stalled_reason is not null then 'stalled'
            when log_position_ < i.first_kept_position then 'dropped'
            when log_position_ <= l.decided_position then 'lost'
            else 'undecided'
        end,
        delivered.stream_position, duplicate.original,
        coalesce(letter.reason, sender.stalled_reason),
        coalesce(
            delivered.delivered_at, letter.first_at, held.held_at, duplicate.decided_at
        ),
        case when held.log_position is not null then relaybox_internal.trace_wait(
            l.stream_id, l.log_id, log_position_, held.sender_id, held.index
        ) end,
        case when s.has_delay and delivered.stream_position is not null
            then relaybox_internal.trace_delay(l.stream_id, delivered.stream_position)
        end
    from relaybox_internal.stream_log l
    join relaybox_internal.hop_in i on i.log_id = l.log_id
    join relaybox_internal.stream s on s.stream_id = l.stream_id
    left join lateral relaybox_internal.trace_stream_position(
        l.stream_id, l.log_id, log_position_
    ) delivered on true
    left join relaybox_internal.dead_letter letter
        on letter.log_id = l.log_id and letter.log_position = log_position_
        and letter.subscription_id is null
    left join relaybox_internal.held held
        on held.log_id = l.log_id and held.log_position = log_position_
    left join lateral relaybox_internal.trace_duplicate(
        message.sender, message.epoch, message.index, message.message_id, l.log_id,
        log_position_, s.message_id_window
    ) duplicate on true
    left join relaybox_internal.sender_state sender
        on sender.stream_id = l.stream_id and sender.sender = message.sender
        and sender.epoch = message.epoch and sender.stalled_after < log_position_
        and log_position_ <= l.decided_position
    where l.log_id = log_id_;
end
$$;
