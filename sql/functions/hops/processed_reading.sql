-- Returns how far subscriptions have processed what a hop brought. Every message of its log through
-- the position was acknowledged by each of them, or was never delivered (a duplicate, or set aside
-- by the stream). An open dead letter of a subscription is not processed. A replay, and dead
-- letters that it makes, take nothing back. missing: names that are no subscriptions of the hop's
-- stream. of_one_topic: subscriptions that read one topic, with the topic; other topics may come
-- from any store on the way. If there are any of these two, nothing is processed. Runs in the
-- caller's transaction, whose durable COMMIT makes the acknowledgements durable too. Raises RB004.
create or replace function relaybox_internal.processed_reading(
    hop_name text, subscriptions text[], out through_position bigint, out happened_at timestamptz,
    out missing text[], out of_one_topic text[]
)
language plpgsql volatile
as $$
declare
    own_log relaybox_internal.stream_log;
begin
    perform relaybox_internal.require_writable_primary();
    set local synchronous_commit = on;
    select l.* into own_log
    from relaybox_internal.hop_in i
    join relaybox_internal.stream_log l on l.log_id = i.log_id
    where i.hop = hop_name;
    if not found then
        raise exception using errcode = 'RB004',
            message = format('hop %s arrives in no stream of this store', hop_name),
            hint = 'Run: relaybox init';
    end if;
    -- the locks are written to WAL: the COMMIT flushes what consumers committed before without
    -- waiting for it
    perform from relaybox_internal.subscription s
    where s.subscription = any(subscriptions) and s.stream_id = own_log.stream_id
        and s.ended_at is null and s.replay_of is null
    for key share;
    missing := array(
        select n from unnest(subscriptions) n
        where not exists (
            select from relaybox_internal.subscription s
            where s.subscription = n and s.stream_id = own_log.stream_id
                and s.ended_at is null and s.replay_of is null
        )
    );
    of_one_topic := array(
        select format('%s (topic %s)', s.subscription, s.topic)
        from relaybox_internal.subscription s
        where s.subscription = any(subscriptions) and s.stream_id = own_log.stream_id
            and s.ended_at is null and s.topic is not null
        order by s.subscription
    );
    if missing <> '{}' or of_one_topic <> '{}' then
        through_position := 0;
        return;
    end if;
    select p.through_position, p.happened_at into through_position, happened_at
    from relaybox_internal.processed_through(own_log.stream_id, own_log.log_id, subscriptions) p;
end
$$;
