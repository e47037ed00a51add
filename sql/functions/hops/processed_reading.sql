-- How far the named subscriptions are done with what a hop brought: every message of its log through the position was acknowledged by each
-- of them, or never delivered (a duplicate, set aside by the stream). A subscription's open dead letter is not processed. A replay takes
-- nothing back, nor do dead letters that it makes. missing: those that are no subscriptions of the hop's stream; of_one_topic: those that read
-- one topic, with it, whatever else the stream carries now: others may come from any store on the way. Nothing is processed then.
-- In the caller's transaction, whose durable COMMIT makes the acknowledgements durable too. Raises RB004.
create or replace function relaybox_internal.processed_reading(
    hop_name text, subscriptions text[], out through_position bigint, out happened_at timestamptz, out missing text[],
    out of_one_topic text[]
)
language plpgsql volatile
as $$
declare
    log_here relaybox_internal.stream_log;
begin
    perform relaybox_internal.require_writable_primary();
    set local synchronous_commit = on;
    select l.* into log_here from relaybox_internal.hop_in i join relaybox_internal.stream_log l on l.log_id = i.log_id where i.hop = hop_name;
    if not found then
        raise exception using errcode = 'RB004', message = format('hop %s arrives in no stream of this store', hop_name), hint = 'Run: relaybox init';
    end if;
    -- the locks are written to WAL, so that the COMMIT flushes what consumers committed before without waiting for it
    perform from relaybox_internal.subscription s
    where s.subscription = any(subscriptions) and s.stream_id = log_here.stream_id and s.ended_at is null and s.replay_of is null
    for key share;
    missing := array(
        select n from unnest(subscriptions) n
        where not exists (
            select from relaybox_internal.subscription s
            where s.subscription = n and s.stream_id = log_here.stream_id and s.ended_at is null and s.replay_of is null
        )
    );
    of_one_topic := array(
        select format('%s (topic %s)', s.subscription, s.topic) from relaybox_internal.subscription s
        where s.subscription = any(subscriptions) and s.stream_id = log_here.stream_id and s.ended_at is null and s.topic is not null
        order by s.subscription
    );
    if missing <> '{}' or of_one_topic <> '{}' then
        through_position := 0;
        return;
    end if;
    -- one statement, one snapshot
    select
        case
            when r.done_stream_position >= s.last_stream_position then relaybox_internal.resolved_position(log_here.log_id)
            else coalesce((
                select k.resolved_position from relaybox_internal.decision k
                where k.log_id = log_here.log_id and k.last_stream_position <= r.done_stream_position and k.resolved_position is not null
                order by k.last_stream_position desc, k.batch desc
                limit 1
            ), 0)
        end,
        r.moved_at
    into through_position, happened_at
    from relaybox_internal.stream s
    cross join lateral (
        select min(least(greatest(c.done_stream_position, c.replay_stream_position), dead_letter_id.stream_position - 1)) as done_stream_position,
        max(c.moved_at) as moved_at
        from relaybox_internal.subscription n
        join relaybox_internal.lane_cursors c on c.subscription_id = n.subscription_id
        cross join lateral (
            select min(d.stream_position) as stream_position from relaybox_internal.dead_letter d
            where d.subscription_id = c.subscription_id and d.lane = c.lane and d.state in ('open', 'redriving')
                and not d.acknowledged_before
        ) dead_letter_id
        where n.subscription = any(subscriptions) and n.stream_id = log_here.stream_id and n.ended_at is null and n.replay_of is null
    ) r
    where s.stream_id = log_here.stream_id;
end
$$;
