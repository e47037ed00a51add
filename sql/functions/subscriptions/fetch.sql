-- Acknowledges an earlier fetch, if asked to, and returns the next messages: one round trip in the
-- caller's transaction. The usual case is decided here, in three statements and one that reads: a
-- subscription with one lane to all topics of a stream, in a store that binds nothing to roles, with
-- nothing refused, set aside, suspected, redriven or delayed; its last fetch is acknowledged as a
-- whole, and its next messages are one range of a log. Each other case and each error is
-- fetch_any_lane()'s; nothing has changed before. Locks the lane until the transaction ends.
-- Plans are fixed by the settings below, since sessions of consumers have settings of their own.
create or replace function relaybox.fetch(
    subscription text, max_count integer default 100,
    acked_stream_position bigint default null, acked_token text default null,
    only_lane integer default null, worker text default null
)
returns table (
    stream_position bigint, lane integer, token text, replayed boolean, attempt integer,
    hop text, log_position bigint, message_id uuid, topic text, sender text, epoch integer,
    index bigint, key text, payload text, payload_bytes bytea, headers jsonb, clock jsonb,
    sent_at timestamptz
)
language plpgsql volatile security definer
set search_path = pg_catalog, relaybox, pg_temp
set row_security = off
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
set work_mem = '64MB'
-- planning for its values would take a third of a fetch of 100; see plan_for_log()
set plan_cache_mode = force_generic_plan
as $$
declare
    worker_ text := case
        when "fetch".worker is null then 'transaction ' || pg_current_xact_id()
        -- worker_name() refuses the others, and takes some of them
        when length("fetch".worker) between 1 and 300 and "fetch".worker not like 'transaction %'
            then "fetch".worker
    end;
    subscription_id_ integer;
    stream_id_ integer;
    lease interval;
    next_version bigint;
    done_stream_position_ bigint;
    fetched_stream_position_ bigint;
    replay_stream_position_ bigint;
    rate_from_ timestamptz;
    log_id_ integer;
    hop_ text;
    shift bigint; -- from a log position to the stream position
    token_ text;
    is_usual boolean;
begin
    perform relaybox_internal.refuse_maintenance();
    select s.subscription_id, s.stream_id, make_interval(secs => s.lease_seconds)
    into subscription_id_, stream_id_, lease
    from relaybox_internal.store t
    cross join relaybox_internal.subscription s
    join relaybox_internal.lane l on l.subscription_id = s.subscription_id
    where not t.bind_subscriptions and not t.bind_topics
        and s.subscription = "fetch".subscription and s.ended_at is null
        and s.lanes = 1 and s.topic is null and s.replay_of is null
        and s.rows_per_second is null and not s.hold_sender
        and l.lane = 1 and coalesce(only_lane, 1) = 1
        and worker_ is not null and pg_trigger_depth() = 0
    for update of l skip locked;
    if found then
        -- a later statement than the lock: it sees what was committed before
        select
            k.version + 1, k.fetched_stream_position,
            least(k.fetched_stream_position + max_count, s.last_stream_position),
            k.replay_stream_position, k.rate_from, d.log_id, i.hop,
            d.first_stream_position - d.first_position
        into
            next_version, done_stream_position_, fetched_stream_position_,
            replay_stream_position_, rate_from_, log_id_, hop_, shift
        from (
            select
                c.version, c.done_stream_position, c.fetched_stream_position,
                c.redrive_stream_position, c.suspect_stream_position, c.worker, c.wait_until,
                c.replay_stream_position, c.rate_from, c.token
            from relaybox_internal.cursor c
            where c.subscription_id = subscription_id_ and c.lane = 1
            order by c.version desc
            limit 1
        ) k
        cross join relaybox_internal.stream s
        cross join lateral (
            select
                e.log_id, e.first_position, e.first_stream_position, e.last_stream_position,
                e.log_positions
            from relaybox_internal.delivery e
            where e.stream_id = stream_id_
                and e.last_stream_position > k.fetched_stream_position
            order by e.last_stream_position
            limit 1
        ) d
        join relaybox_internal.hop_in i on i.log_id = d.log_id
        where s.stream_id = stream_id_ and max_count >= 1
            -- find_new_messages() looks for messages that are expired, or not due
            and not s.has_expiry and not s.has_delay
            and case
                when acked_stream_position is null then acked_token is null
                    and k.worker is null
                    and k.fetched_stream_position = k.done_stream_position
                else k.worker is not null and k.token = acked_token
                    and k.fetched_stream_position = acked_stream_position
                    and k.fetched_stream_position > k.done_stream_position
            end
            and k.redrive_stream_position is null and k.wait_until is null
            and k.suspect_stream_position = 0
            and (k.version + 1) % 100 <> 0 -- move_cursor() removes older cursors then
            and s.last_stream_position > k.fetched_stream_position
            and s.first_kept_stream_position <= k.fetched_stream_position + 1
            and d.log_positions is null
            and d.last_stream_position
            >= least(k.fetched_stream_position + max_count, s.last_stream_position)
            and not exists (
                select from relaybox_internal.failed_attempt f
                where f.subscription_id = subscription_id_ and f.lane = 1
            )
            and not exists (
                select from relaybox_internal.dead_letter r
                where r.subscription_id = subscription_id_ and r.lane = 1
                    and r.state = 'redriving'
            )
            and not exists (
                select from relaybox_internal.dead_letter a
                where a.subscription_id = subscription_id_
                    and a.stream_position > k.fetched_stream_position
                    and a.stream_position <= k.fetched_stream_position + max_count
            );
    end if;
    if found then
        token_ := relaybox_internal.new_token(subscription_id_, 1, next_version);
        insert into relaybox_internal.cursor (
            subscription_id, lane, version, done_stream_position, fetched_stream_position,
            fetch_count, worker, leased_until, replay_stream_position, rate_from, token, fetched_in,
            first_fetched_at
        ) values (
            subscription_id_, 1, next_version, done_stream_position_, fetched_stream_position_,
            1, worker_, clock_timestamp() + lease, replay_stream_position_, rate_from_, token_,
            pg_current_xact_id(), clock_timestamp()
        )
        on conflict do nothing;
    end if;
    is_usual := found;
    -- asked once in a session, and now and then: counting costs a sixth of a fetch of one message
    if current_setting('relaybox.many_segments', true) is distinct from 'off'
        or random() < 0.01 then
        perform relaybox_internal.plan_for_log();
    end if;
    if not is_usual then
        return query select w.* from relaybox_internal.fetch_any_lane(
            "fetch".subscription, max_count, acked_stream_position, acked_token, only_lane,
            "fetch".worker
        ) w;
        return;
    end if;
    return query
    select
        l.log_position + shift, 1, token_, l.log_position + shift <= replay_stream_position_, 1,
        hop_, l.log_position, l.message_id, l.topic, l.sender, l.epoch, l.index, l.key, l.payload,
        l.payload_bytes, l.headers, l.clock, l.sent_at
    from relaybox_internal.log l
    where l.log_id = log_id_ and l.log_position > done_stream_position_ - shift
        and l.log_position <= fetched_stream_position_ - shift
    order by l.log_position;
end
$$;

comment on function relaybox.fetch(text, integer, bigint, text, integer, text) is
'Returns the next messages of one free lane and leases them to a worker.
No row: nothing is new; or each lane with new messages is leased, waits (after a nack, for a delayed
message, for the rate of a replay), or is held by an open transaction. Messages that were fetched and
not acknowledged come again, the same rows.
`subscription`: its name. `max_count`: greatest number of new messages (100).
`acked_stream_position`, `acked_token`: acknowledge an earlier fetch first, as ack() does; optional.
`only_lane`: fetch from this lane; null: from any lane that is free.
`worker`: the name of your process, the same after a restart; null: this transaction. Without a name
    a later transaction gets the same messages when the lease has ended.
Returns the message with the columns of relaybox.inbox, and: `stream_position`, `lane`,
    `token` (for ack, nack and release; the same in all rows),
    `replayed` (true: acknowledged before, read again), `attempt` (1 for the first delivery).
Errors: RB031 (not subscribed), RB033 (no token, or acked_stream_position was not fetched), RB034
    (no longer kept), RB035 (the token is old, or only_lane is leased to another worker), RB036 (a
    value that is not allowed), RB038 (detached), RB040 (bound to other roles), RB041 (a topic that
    the role may not read; nothing is acknowledged).';
