-- Makes a fetched message of a lane a dead letter of its subscription; the rest flows. Caller: holds the lane.
-- Where later messages of a sender wait, those that are fetched already are set aside with it, and redriven ones go back.
create or replace function relaybox.set_aside(
    c relaybox.cursor, known relaybox.subscription, place_ bigint, reason_ text, detail_ text, attempts_ integer, worker_ text
)
returns void
language plpgsql volatile
as $$
declare
    refused record;
begin
    select m.hop_id, m.position, m.sender into refused from relaybox.message_at(known.stream_id, place_) m;
    insert into relaybox.dead_letter as d (
        stream_id, hop_id, "position", reason, detail, subscription_id, lane, place, sender, attempts, last_by, first_at,
        acknowledged_before
    )
    values (
        known.stream_id, refused.hop_id, refused.position, reason_, detail_, known.subscription_id, c.lane, place_, refused.sender, attempts_, worker_,
        coalesce(least(c.first_fetched_at, (
            select f.first_at from relaybox.failed_attempt f
            where f.subscription_id = known.subscription_id and f.lane = c.lane and f.place = place_
        )), clock_timestamp()),
        place_ <= c.replay_place
    )
    on conflict (subscription_id, place) do update
    set state = 'open', reason = excluded.reason, detail = excluded.detail, attempts = d.attempts + excluded.attempts,
        last_at = clock_timestamp(), last_by = excluded.last_by, settled_at = null, settled_by = null, settled_reason = null,
        given_ahead = false,
        acknowledged_before = d.acknowledged_before or d.state = 'redriven';
    delete from relaybox.failed_attempt f where f.subscription_id = known.subscription_id and f.lane = c.lane and f.place = place_;
    if known.hold_sender then
        update relaybox.dead_letter d set state = 'open'
        where d.subscription_id = known.subscription_id and d.lane = c.lane and d.sender = refused.sender
            and d.state = 'redriving' and d.place > place_;
        perform relaybox.hold_back(c, known, greatest(place_, c.done_place), c.fetched_place);
    end if;
end
$$;
