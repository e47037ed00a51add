-- Makes a fetched message of a lane a dead letter of its subscription; the lane goes on. Caller
-- holds the lane. If later messages of the sender have to wait, those that are fetched already are
-- set aside with it, and redriven ones go back.
create or replace function relaybox_internal.set_aside(
    cursor_ relaybox_internal.cursor, subscription_ relaybox_internal.subscription,
    stream_position_ bigint, reason_ text, detail_ text, attempts_ integer, worker_ text
)
returns void
language plpgsql volatile
as $$
declare
    refused record;
begin
    select m.log_id, m.log_position, m.sender into refused
    from relaybox_internal.message_at(subscription_.stream_id, stream_position_) m;
    insert into relaybox_internal.dead_letter as d (
        stream_id, log_id, log_position, reason, detail, subscription_id, lane, stream_position,
        sender, attempts, last_by, first_at, acknowledged_before
    )
    values (
        subscription_.stream_id, refused.log_id, refused.log_position, reason_, detail_,
        subscription_.subscription_id, cursor_.lane, stream_position_, refused.sender, attempts_,
        worker_,
        coalesce(least(cursor_.first_fetched_at, (
            select f.first_at from relaybox_internal.failed_attempt f
            where f.subscription_id = subscription_.subscription_id and f.lane = cursor_.lane
                and f.stream_position = stream_position_
        )), clock_timestamp()),
        stream_position_ <= cursor_.replay_stream_position
    )
    on conflict (subscription_id, stream_position) do update
    set state = 'open', reason = excluded.reason, detail = excluded.detail,
        attempts = d.attempts + excluded.attempts,
        last_at = clock_timestamp(), last_by = excluded.last_by, resolved_at = null,
        resolved_by = null, resolved_reason = null,
        given_ahead = false,
        acknowledged_before = d.acknowledged_before or d.state = 'redriven';
    delete from relaybox_internal.failed_attempt f
    where f.subscription_id = subscription_.subscription_id and f.lane = cursor_.lane
        and f.stream_position = stream_position_;
    if subscription_.hold_sender then
        update relaybox_internal.dead_letter d set state = 'open'
        where d.subscription_id = subscription_.subscription_id and d.lane = cursor_.lane
            and d.sender = refused.sender
            and d.state = 'redriving' and d.stream_position > stream_position_;
        perform relaybox_internal.dead_letter_followers(
            cursor_, subscription_, greatest(stream_position_, cursor_.done_stream_position),
            cursor_.fetched_stream_position
        );
    end if;
end
$$;
