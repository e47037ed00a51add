SET statement_timeout = 0;
SET lock_timeout = 0;
SET idle_in_transaction_session_timeout = 0;
SET transaction_timeout = 0;
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SELECT pg_catalog.set_config('search_path', '', false);
SET check_function_bodies = false;
SET xmloption = content;
SET client_min_messages = warning;
SET row_security = off;

CREATE SCHEMA relaybox;

CREATE FUNCTION relaybox.accept_slice(log_id integer, generation_ integer, batch_ bigint, slice_ integer, plan_id_ uuid, row_count_ bigint, attempt_ bigint, digest_ text DEFAULT NULL::text, first_position bigint DEFAULT NULL::bigint) RETURNS void
    LANGUAGE plpgsql
    AS $$
declare
    published bigint;
    generation_here integer;
    digest_here text;
begin
    -- before the lock: publish must not wait for it
    if digest_ is not null then
        select d.digest into digest_here
        from relaybox.slice_digest(
            log_id, null, null, null, first_position, first_position + row_count_ - 1, first_position, first_position + row_count_ - 1
        ) d;
        if digest_here is distinct from digest_ then
            raise exception using errcode = 'RB012',
                message = format('slice %s of batch %s arrived with other content than was planned', slice_, batch_),
                hint = 'Messages of the source were changed after planning. Nothing of the slice was kept.';
        end if;
    end if;
    select i.published_batch, i.generation into published, generation_here from relaybox.hop_in i where i.hop_id = log_id for share;
    if generation_here <> generation_ then
        raise exception using errcode = 'RB015',
            message = format('slice %s of batch %s is of generation %s, the hop is in generation %s here', slice_, batch_, generation_, generation_here);
    end if;
    if published >= batch_ then
        raise exception using errcode = 'RB015',
            message = format('slice %s of batch %s came after batch %s was published', slice_, batch_, published);
    end if;
    if published <> batch_ - 1 then
        raise exception using errcode = 'RB011',
            message = format('slice of batch %s, but the newest published batch is %s', batch_, published),
            hint = 'One of the two stores lost history. Nothing was overwritten.';
    end if;
    insert into relaybox.receipt (hop_id, batch, slice, plan_id, row_count, attempt)
    values (log_id, batch_, slice_, plan_id_, row_count_, attempt_);
end
$$;

CREATE FUNCTION relaybox.ack(subscription text, place bigint, lane integer DEFAULT 1, worker text DEFAULT NULL::text) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'relaybox', 'pg_temp'
    AS $$
declare
    known relaybox.subscription := relaybox.subscription_named(ack.subscription);
    c relaybox.cursor;
begin
    c := relaybox.acknowledged(relaybox.lock_lane(known, ack.lane), known, ack.place, relaybox.worker_name(ack.worker));
    perform relaybox.move_cursor(c);
    return c.done_place;
end
$$;


SET default_tablespace = '';

SET default_table_access_method = heap;

CREATE TABLE relaybox.cursor (
    subscription_id integer NOT NULL,
    lane integer NOT NULL,
    version bigint NOT NULL,
    done_place bigint NOT NULL,
    fetched_place bigint NOT NULL,
    redrive_place bigint,
    fetch_count integer DEFAULT 0 NOT NULL,
    suspect_place bigint DEFAULT 0 NOT NULL,
    suspect_rows integer,
    worker text,
    leased_until timestamp with time zone,
    wait_until timestamp with time zone,
    replay_place bigint DEFAULT 0 NOT NULL,
    rate_from timestamp with time zone,
    moved_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    CONSTRAINT a_lease_has_a_worker CHECK (((worker IS NULL) = (leased_until IS NULL))),
    CONSTRAINT done_is_not_beyond_fetched CHECK ((fetched_place >= done_place))
);

COMMENT ON COLUMN relaybox.cursor.done_place IS 'every message of the lane up to it was acknowledged or set aside';

COMMENT ON COLUMN relaybox.cursor.fetched_place IS 'beyond done_place: fetched, not acknowledged yet; fetching again gives the same';

COMMENT ON COLUMN relaybox.cursor.redrive_place IS 'what is fetched now are redriven dead letters up to this place';

COMMENT ON COLUMN relaybox.cursor.fetch_count IS 'how often that was fetched without a word';

COMMENT ON COLUMN relaybox.cursor.suspect_place IS 'up to it fetches are small (suspect_rows): something there seems to kill its worker';

COMMENT ON COLUMN relaybox.cursor.replay_place IS 'messages up to it were done before: they are read again';

COMMENT ON COLUMN relaybox.cursor.rate_from IS 'since when the rows of a limited replay are saved up';

CREATE TABLE relaybox.subscription (
    subscription_id integer NOT NULL,
    subscription text NOT NULL,
    stream_id integer NOT NULL,
    topic text,
    lanes integer DEFAULT 1 NOT NULL,
    lane_by text DEFAULT 'sender'::text NOT NULL,
    lane_hash bigint DEFAULT hashtextextended('relaybox'::text, (0)::bigint) NOT NULL,
    first_place bigint NOT NULL,
    through_place bigint,
    replay_of integer,
    rows_per_second integer,
    nack_limit integer DEFAULT 5 NOT NULL,
    crash_limit integer DEFAULT 5 NOT NULL,
    hold_sender boolean DEFAULT false NOT NULL,
    retry_seconds integer DEFAULT 0 NOT NULL,
    lease_seconds integer DEFAULT 60 NOT NULL,
    subscribed_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    subscribed_by text DEFAULT SESSION_USER NOT NULL,
    ended_at timestamp with time zone,
    CONSTRAINT a_replay_ends CHECK (((replay_of IS NULL) = (through_place IS NULL))),
    CONSTRAINT lane_by_is_known CHECK ((lane_by = ANY (ARRAY['sender'::text, 'key'::text]))),
    CONSTRAINT lanes_1_to_64 CHECK (((lanes >= 1) AND (lanes <= 64))),
    CONSTRAINT subscription_is_a_plain_name CHECK ((subscription ~ '^[a-z0-9_.-]{1,60}$'::text)),
    CONSTRAINT subscription_limits_positive CHECK (((first_place >= 1) AND (nack_limit >= 1) AND (crash_limit >= 1) AND (retry_seconds >= 0) AND (lease_seconds >= 1) AND (rows_per_second >= 1)))
);

COMMENT ON COLUMN relaybox.subscription.topic IS 'null: every topic of the stream';

COMMENT ON COLUMN relaybox.subscription.lane_hash IS 'of a fixed text: another value means that this server would give senders other lanes';

COMMENT ON COLUMN relaybox.subscription.through_place IS 'a second cursor, for a range: its last place';

CREATE FUNCTION relaybox.acknowledged(c relaybox.cursor, known relaybox.subscription, place_ bigint, worker_ text) RETURNS relaybox.cursor
    LANGUAGE plpgsql
    AS $$
declare
    rest bigint;
begin
    perform relaybox.require_fetched(c, known, place_, worker_);
    if c.redrive_place is not null then
        update relaybox.dead_letter d
        set state = 'redriven', settled_at = clock_timestamp()
        where d.subscription_id = c.subscription_id and d.lane = c.lane and d.state = 'redriving' and d.place <= place_;
        select min(d.place) into rest from relaybox.dead_letter d
        where d.subscription_id = c.subscription_id and d.lane = c.lane and d.state = 'redriving' and d.place <= c.redrive_place;
        if rest is null then
            c.redrive_place := null;
        end if;
    else
        c.done_place := place_;
        rest := case when c.fetched_place > place_ then c.fetched_place end;
        if c.done_place >= c.suspect_place then
            c.suspect_place := 0;
            c.suspect_rows := null;
        end if;
    end if;
    delete from relaybox.failed_attempt f where f.subscription_id = c.subscription_id and f.lane = c.lane and f.place <= place_;
    if rest is null then
        c.worker := null;
        c.leased_until := null;
        c.fetch_count := 0;
    else
        c.leased_until := clock_timestamp() + make_interval(secs => known.lease_seconds);
        c.fetch_count := 1;
    end if;
    return c;
end
$$;

CREATE FUNCTION relaybox.add_topics(hop_name text, topics_ text[]) RETURNS integer
    LANGUAGE plpgsql
    AS $$
declare
    added integer;
begin
    perform relaybox.require_writable_primary();
    select cardinality(array(select unnest(topics_) except select unnest(h.topics))) into added
    from relaybox.hop_out h where h.hop = hop_name and h.reads_log is null;
    if added > 0 then
        update relaybox.hop_out h set topics = array(select unnest(h.topics) union select unnest(topics_) order by 1) where h.hop = hop_name;
    elsif added is null then
        insert into relaybox.stream_topic (stream_id, topic)
        select l.stream_id, t.topic
        from relaybox.hop_out h
        join relaybox.stream_log l on l.hop_id = h.reads_log
        cross join unnest(topics_) as t (topic)
        where h.hop = hop_name
        on conflict do nothing;
        get diagnostics added = row_count;
    end if;
    return added;
end
$$;

CREATE FUNCTION relaybox.adopted_content(hop_name text, positions bigint[], message_ids uuid[]) RETURNS TABLE("position" bigint, message_hash text)
    LANGUAGE sql STABLE
    AS $$
    select
        a.position,
        relaybox.message_hash(
            o.message_id, o.topic, o.sender, case when o.index is null then 0 else o.epoch end, coalesce(o.index, a.position),
            o.key, o.payload, o.payload_bytes, o.headers, o.clock, o.sent_at
        )
    from unnest(positions, message_ids) a ("position", message_id)
    join relaybox.hop_out h on h.hop = hop_name and h.reads_log is null
    join relaybox.outbox o on o.message_id = a.message_id
    union all
    select
        a.position,
        relaybox.message_hash(
            l.message_id, l.topic, l.sender, l.epoch, l.index, l.key, l.payload, l.payload_bytes, l.headers, l.clock, l.sent_at
        )
    from unnest(positions, message_ids) a ("position", message_id)
    join relaybox.hop_out h on h.hop = hop_name
    join relaybox.log l on l.hop_id = h.reads_log and l.position = a.position and l.message_id = a.message_id
$$;

CREATE TABLE relaybox.stream (
    stream_id integer NOT NULL,
    stream text NOT NULL,
    delivery_order text NOT NULL,
    message_id_window bigint DEFAULT 0 NOT NULL,
    holdback_rows bigint DEFAULT 10000 NOT NULL,
    fragments bigint DEFAULT 1000000 NOT NULL,
    taken bigint DEFAULT 0 NOT NULL,
    last_place bigint DEFAULT 0 NOT NULL,
    recheck boolean DEFAULT false NOT NULL,
    registered_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    first_kept_place bigint DEFAULT 1 NOT NULL,
    topics_by_subscription boolean DEFAULT false NOT NULL,
    dropped_place bigint DEFAULT 0 NOT NULL,
    CONSTRAINT delivery_order_is_known CHECK ((delivery_order = ANY (ARRAY['none'::text, 'fifo'::text, 'causal'::text, 'total'::text]))),
    CONSTRAINT dropped_place_is_not_kept CHECK ((dropped_place < first_kept_place)),
    CONSTRAINT first_kept_place_positive CHECK ((first_kept_place >= 1)),
    CONSTRAINT stream_limits_positive CHECK (((message_id_window >= 0) AND (holdback_rows >= 1) AND (fragments >= 1)))
);

COMMENT ON COLUMN relaybox.stream.taken IS 'rows of its logs that were decided on; the arrival number of the newest';

COMMENT ON COLUMN relaybox.stream.last_place IS 'places 1 to this one are filled, and never change';

COMMENT ON COLUMN relaybox.stream.recheck IS 'something besides a new batch may release what is held: an operator skipped a gap';

COMMENT ON COLUMN relaybox.stream.topics_by_subscription IS 'subscribing to a topic that no stream of the store carries makes it one of this stream';

COMMENT ON COLUMN relaybox.stream.dropped_place IS 'places up to it were dropped for good; those between it and first_kept_place are detached';

CREATE FUNCTION relaybox.append_run(here relaybox.stream, log_id integer, first_position_ bigint, last_position_ bigint) RETURNS void
    LANGUAGE plpgsql
    AS $$
begin
    update relaybox.delivery d set last_place = d.last_place + last_position_ - first_position_ + 1, delivered_at = clock_timestamp()
    where d.stream_id = here.stream_id and d.last_place = here.last_place and d.hop_id = log_id and d.positions is null
        and d.first_position + d.last_place - d.first_place + 1 = first_position_;
    if not found then
        insert into relaybox.delivery (stream_id, first_place, last_place, hop_id, first_position)
        values (here.stream_id, here.last_place + 1, here.last_place + last_position_ - first_position_ + 1, log_id, first_position_);
    end if;
end
$$;

CREATE FUNCTION relaybox.ask_replay(subscription text, cursor_name text, start text, through text, reason text, asked_by text, rows_per_second integer DEFAULT NULL::integer, OUT state text, OUT replay bigint, OUT first_place bigint, OUT last_place bigint, OUT message_count bigint, OUT byte_count bigint, OUT estimated_seconds double precision, OUT waits_for text) RETURNS record
    LANGUAGE plpgsql
    AS $_$
declare
    known relaybox.subscription := relaybox.subscription_named(ask_replay.subscription);
    second relaybox.subscription;
    newest relaybox.replay_range;
    c relaybox.cursor;
begin
    perform relaybox.require_reason(reason, 'a replay is asked for', 'Say why the messages are read again.');
    if known.replay_of is not null then
        raise exception using errcode = 'RB036', message = format('subscription %s is a replay itself, and a replay is not replayed', known.subscription),
            hint = 'Replay the subscription that it belongs to.';
    end if;
    -- one asker at a time; the rows that name the subscription may go on
    perform from relaybox.subscription s where s.subscription_id = known.subscription_id for no key update;
    perform from relaybox.stream s where s.stream_id = known.stream_id for key share;
    select b.first_place, b.last_place into first_place, last_place from relaybox.places_between(known.stream_id, start, through) b;
    if through !~ '^([0-9]+|latest|earliest)$' and through::timestamptz > clock_timestamp() then
        raise exception using errcode = 'RB036', message = format('the interval that ends at %s is not over yet', through),
            hint = 'Replay it when it is: what is still to come would be missing.';
    end if;
    if last_place < first_place then
        state := 'empty';
        return;
    end if;
    select * into second from relaybox.subscription s where s.subscription = cursor_name and s.ended_at is null;
    if second.subscription_id is not null and second.replay_of is distinct from known.subscription_id then
        raise exception using errcode = 'RB036',
            message = format('%s is a subscription of its own, and no second cursor of %s', cursor_name, known.subscription),
            hint = 'Give the replay a name that is free.';
    end if;
    select * into newest from relaybox.replay_range r
    where r.subscription_id = second.subscription_id order by r.replay_range_id desc limit 1;
    if relaybox.replayed_through(second.subscription_id) < second.through_place then
        state := case
            when (newest.first_place, newest.last_place) = (first_place, last_place) and second.through_place = last_place then 'joined'
            else 'waits'
        end;
        waits_for := case when state = 'waits' then format(
            'places %s to %s, asked for by %s, done through %s', second.first_place, second.through_place,
            coalesce(newest.asked_by[1], second.subscribed_by), relaybox.replayed_through(second.subscription_id)
        ) end;
        replay := newest.replay_range_id;
        if state = 'joined' then
            update relaybox.replay_range r set asked_by = array_append(r.asked_by, ask_replay.asked_by)
            where r.replay_range_id = replay and ask_replay.asked_by <> all(r.asked_by);
        end if;
        return;
    end if;
    select r.replay_range_id into replay from relaybox.replay_range r
    where r.subscription_id = second.subscription_id and ask_replay.asked_by = any(r.asked_by)
        and (r.first_place, r.last_place) = (ask_replay.first_place, ask_replay.last_place)
    order by r.replay_range_id desc limit 1;
    if found then
        state := 'done';
        return;
    end if;
    select e.message_count, e.byte_count, coalesce(e.message_count::double precision / ask_replay.rows_per_second, e.read_seconds)
    into message_count, byte_count, estimated_seconds
    from relaybox.estimate_range(known, first_place, last_place) e;
    if second.subscription_id is null then
        second.subscription_id := relaybox.open_replay(known, cursor_name, first_place, last_place, rows_per_second);
    else
        update relaybox.subscription s
        set first_place = ask_replay.first_place, through_place = ask_replay.last_place, rows_per_second = ask_replay.rows_per_second
        where s.subscription_id = second.subscription_id;
        update relaybox.replay_range r set done_at = clock_timestamp() where r.subscription_id = second.subscription_id and r.done_at is null;
        for lane_ in 1..second.lanes loop
            c := relaybox.cursor_at(relaybox.lock_lane(second, lane_), first_place - 1);
            c.replay_place := last_place;
            c.rate_from := clock_timestamp();
            perform relaybox.move_cursor(c);
        end loop;
    end if;
    state := 'begun';
    insert into relaybox.replay_range (subscription_id, first_place, last_place, asked_by, reason)
    values (second.subscription_id, first_place, last_place, array[ask_replay.asked_by], ask_replay.reason)
    returning replay_range_id into replay;
    perform relaybox.record_action(known.subscription, 'replay', reason, jsonb_build_object(
        'as', cursor_name, 'start', start, 'through', through, 'first_place', first_place, 'last_place', last_place,
        'rows_per_second', rows_per_second, 'asked_by', ask_replay.asked_by
    ));
end
$_$;

CREATE FUNCTION relaybox.attempts_at(known relaybox.subscription, place_ bigint) RETURNS integer
    LANGUAGE sql STABLE
    AS $$
    select coalesce(max(f.attempts), 0) from relaybox.failed_attempt f where f.subscription_id = known.subscription_id and f.place = place_
$$;

CREATE FUNCTION relaybox.batch_slices(slices jsonb) RETURNS TABLE(slice integer, first_read bigint, last_read bigint, first_position bigint, row_count bigint)
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $$
    select (s ->> 0)::integer, (s ->> 1)::bigint, (s ->> 2)::bigint, (s ->> 3)::bigint, (s ->> 4)::bigint
    from jsonb_array_elements(slices) s
$$;

CREATE TABLE relaybox.detached_segment (
    hop_id integer NOT NULL,
    first bigint NOT NULL,
    last bigint NOT NULL,
    segment text NOT NULL,
    state text DEFAULT 'detaching'::text NOT NULL,
    attempt integer DEFAULT 1 NOT NULL,
    directory text NOT NULL,
    strays text[] DEFAULT '{}'::text[] NOT NULL,
    row_count bigint NOT NULL,
    hash_sum numeric NOT NULL,
    for_whom text[] NOT NULL,
    begun_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    begun_by text NOT NULL,
    moved_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    moved_by text NOT NULL,
    removed_at timestamp with time zone,
    CONSTRAINT detached_segment_not_empty CHECK (((last > first) AND (row_count > 0))),
    CONSTRAINT detached_state_is_known CHECK ((state = ANY (ARRAY['detaching'::text, 'detached'::text, 'attached'::text, 'released'::text]))),
    CONSTRAINT needed_files_are_not_removed CHECK (((removed_at IS NULL) OR (state = ANY (ARRAY['attached'::text, 'released'::text]))))
);

COMMENT ON COLUMN relaybox.detached_segment.state IS 'detaching: rows here, files being written; detached: rows in the files only; attached: rows here again; released: nobody needs the files';

COMMENT ON COLUMN relaybox.detached_segment.attempt IS 'whoever detaches or attaches it; a higher number supersedes a lower one';

COMMENT ON COLUMN relaybox.detached_segment.strays IS 'directories of attempts that came to nothing, until they are removed';

COMMENT ON COLUMN relaybox.detached_segment.moved_at IS 'when it came into its state';

CREATE FUNCTION relaybox.begin_attach(log_id integer, recorded_by text, OUT made relaybox.detached_segment, OUT staging text) RETURNS SETOF record
    LANGUAGE plpgsql
    AS $$
begin
    perform relaybox.require_writable_primary();
    update relaybox.detached_segment d set attempt = d.attempt + 1, moved_by = recorded_by
    where d.hop_id = log_id and d.state = 'detached' and d.first = (
        select max(n.first) from relaybox.detached_segment n where n.hop_id = log_id and n.state = 'detached'
    )
    returning d.* into made;
    if not found then
        return;
    end if;
    for staging in
        select c.relname from pg_class c
        where c.relnamespace = 'relaybox'::regnamespace and c.relkind = 'r' and starts_with(c.relname, made.segment || '_attempt_')
    loop
        execute format('drop table relaybox.%I', staging);
    end loop;
    staging := format('%s_attempt_%s', made.segment, made.attempt);
    -- its check is the bounds of the segment: attaching it scans nothing
    execute format(
        'create table relaybox.%I (
            like relaybox.log_%s including defaults including constraints,
            constraint %I primary key (hop_id, position),
            constraint rows_of_the_segment check (hop_id = %s and position >= %s and position < %s)
        )',
        staging, log_id, staging || '_pkey', log_id, made.first, made.last + 1
    );
    return next;
end
$$;

CREATE FUNCTION relaybox.begin_attempt(hop_name text) RETURNS bigint
    LANGUAGE sql
    AS $$
    update relaybox.hop_out set attempt = attempt + 1 where hop = hop_name returning attempt
$$;

CREATE FUNCTION relaybox.begin_detach(log_id integer, recorded_by text) RETURNS SETOF relaybox.detached_segment
    LANGUAGE plpgsql
    AS $$
declare
    here relaybox.hop_in;
    oldest record;
    found_ record;
begin
    perform relaybox.require_writable_primary();
    select * into here from relaybox.hop_in i where i.hop_id = log_id;
    select d.* into oldest from relaybox.detachable_segments(log_id) d order by d.first limit 1;
    if not found then
        return;
    end if;
    select * into found_ from relaybox.log_digest(oldest.segment, oldest.first, oldest.last);
    if found_.row_count <> oldest.last - greatest(oldest.first, 1) + 1 then
        raise exception using errcode = 'RB012',
            message = format(
                'log of %s: segment %s has %s rows for positions %s to %s', here.hop, oldest.segment, found_.row_count, greatest(oldest.first, 1), oldest.last
            ),
            hint = format('Nothing was detached. Run: relaybox verify %s', split_part(here.hop, '/', 1));
    end if;
    return query
    insert into relaybox.detached_segment as d (hop_id, first, last, segment, directory, row_count, hash_sum, for_whom, begun_by, moved_by)
    select
        log_id, oldest.first, oldest.last, c.relname, format('%s/%s/%s/%s-%s', rtrim(here.detach_to, '/'), s.store, here.hop, c.relname, left(md5(gen_random_uuid()::text), 8)),
        found_.row_count, found_.hash_sum, oldest.for_whom, recorded_by, recorded_by
    from relaybox.store s, pg_class c where c.oid = oldest.segment
    on conflict on constraint detached_segment_pkey do update
    set state = 'detaching', attempt = d.attempt + 1, directory = excluded.directory,
        strays = case when d.removed_at is null then d.strays || d.directory else d.strays end,
        row_count = excluded.row_count, hash_sum = excluded.hash_sum, for_whom = excluded.for_whom,
        begun_at = clock_timestamp(), begun_by = excluded.begun_by, moved_at = clock_timestamp(), moved_by = excluded.moved_by, removed_at = null
    where d.state <> 'detached'
    returning d.*;
end
$$;

CREATE FUNCTION relaybox.begin_generation(log_id integer, generation_ integer) RETURNS void
    LANGUAGE plpgsql
    AS $$
declare
    head relaybox.hop_in;
begin
    perform relaybox.require_writable_primary();
    set local synchronous_commit = on;
    perform pg_terminate_backend(a.pid)
    from pg_stat_activity a
    join relaybox.hop_in i on i.hop_id = log_id and i.generation < generation_
    where a.datname = current_database() and a.pid <> pg_backend_pid()
        and starts_with(a.application_name, format('relaybox %s b', left(i.hop, 30)));
    select * into head from relaybox.hop_in i where i.hop_id = log_id for update;
    if head.generation > generation_ then
        raise exception using errcode = 'RB014',
            message = format('hop %s: the source is in generation %s, this store in generation %s', head.hop, generation_, head.generation),
            hint = 'The source lost history. Nothing was moved. Run: relaybox reanchor ' || head.hop;
    end if;
    if head.generation < generation_ then
        delete from relaybox.log l where l.hop_id = log_id and l.position > head.published_position;
        delete from relaybox.receipt r where r.hop_id = log_id and r.batch > head.published_batch;
        update relaybox.hop_in set generation = generation_ where hop_id = log_id;
        update relaybox.stream_log set senders_seen = null where hop_id = log_id;  -- of a history that may not be the source's
    end if;
end
$$;

CREATE FUNCTION relaybox.bind_sender(sender_ text, role_name_ name) RETURNS boolean
    LANGUAGE plpgsql
    AS $$
begin
    perform relaybox.require_sender_kind(sender_, 'gapless');
    if not exists (select from pg_roles r where r.rolname = role_name_) then
        raise exception using errcode = 'undefined_object',
            message = format('there is no role %s in this cluster', role_name_),
            hint = format('Create it first: create role %I login in role relaybox_producer', role_name_);
    end if;
    insert into relaybox.sender_role (sender, role_name) values (sender_, role_name_) on conflict do nothing;
    return found;
end
$$;

CREATE FUNCTION relaybox.bind_senders(asked boolean) RETURNS boolean
    LANGUAGE plpgsql
    AS $$
begin
    if asked = (select o.relrowsecurity from pg_class o where o.oid = 'relaybox.outbox'::regclass) then
        return false;
    end if;
    if asked then
        -- plain tables, no function of ours: functions are dropped at each upgrade
        create policy role_is_bound_to_sender on relaybox.outbox for insert with check (exists (
            select from relaybox.sender_role b
            join pg_catalog.pg_roles r on r.rolname = b.role_name
            where b.sender = outbox.sender and pg_has_role(current_user, r.oid, 'usage')
        ));
        -- for "insert ... returning message_id"; columns are granted, as without policies
        create policy sent_rows_can_be_returned on relaybox.outbox for select using (true);
        alter table relaybox.outbox enable row level security;
    else
        alter table relaybox.outbox disable row level security;
        drop policy role_is_bound_to_sender on relaybox.outbox;
        drop policy sent_rows_can_be_returned on relaybox.outbox;
    end if;
    return true;
end
$$;

CREATE FUNCTION relaybox.cancel_replay(subscription text, reason text) RETURNS text
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'relaybox', 'pg_temp'
    AS $$
declare
    known relaybox.subscription := relaybox.subscription_named(cancel_replay.subscription);
    lane_ integer;
    c relaybox.cursor;
    stood jsonb := '{}';
begin
    perform relaybox.require_reason(reason, 'a replay is cancelled', 'cancel_replay(subscription, ''why'')');
    if known.replay_of is not null then
        perform relaybox.unsubscribe(known.subscription, reason);
        return known.subscription;
    end if;
    for lane_ in 1..known.lanes loop
        c := relaybox.lock_lane(known, lane_);
        if c.done_place < c.replay_place then
            stood := stood || jsonb_build_object(lane_, c.done_place);
            perform relaybox.move_cursor(relaybox.cursor_at(c, c.replay_place));
        end if;
    end loop;
    if stood = '{}' then
        raise exception using errcode = 'RB036', message = format('subscription %s replays nothing', known.subscription);
    end if;
    update relaybox.subscription s set rows_per_second = null where s.subscription_id = known.subscription_id;
    perform relaybox.record_action(known.subscription, 'cancel_replay', reason, jsonb_build_object('done_places', stood));
    return known.subscription;
end
$$;

CREATE FUNCTION relaybox.check_stream(stream_name text) RETURNS TABLE(kind text, violation_count bigint, examples text[])
    LANGUAGE sql STABLE
    SET work_mem TO '256MB'
    SET enable_nestloop TO 'off'
    SET jit TO 'off'
    AS $$
    with here as materialized (
        select * from relaybox.stream s where s.stream = stream_name
    ), logs as materialized (
        select l.*, i.hop, i.first_kept_position from relaybox.stream_log l join relaybox.hop_in i on i.hop_id = l.hop_id
        where l.stream_id = (select h.stream_id from here h)
    ), placed as materialized (
        select p.* from here h cross join lateral relaybox.stream_places(h.stream_id) p
    ), arrived as materialized (
        select i.hop, l.hop_id, l.position, l.message_id, l.sender, l.epoch, l.index, l.clock
        from logs i join relaybox.log l on l.hop_id = i.hop_id and l.position <= i.decided_position
        where l.hop_id = any(array(select hop_id from logs))
    ), fates as materialized (
        select f.hop_id, f.position, count(*) as fate_count, string_agg(f.fate, ', ' order by f.fate) as fates
        from (
            select p.hop_id, p.position, 'place ' || p.place as fate from placed p
            union all
            select d.hop_id, u.at, 'duplicate' from logs i join relaybox.decision d on d.hop_id = i.hop_id cross join unnest(d.duplicates) u (at)
            union all
            select d.hop_id, d.position, 'set aside' from logs i join relaybox.dead_letter d on d.hop_id = i.hop_id where d.subscription_id is null
            union all
            select h.hop_id, h.position, 'held' from logs i join relaybox.held h on h.hop_id = i.hop_id
            union all
            select a.hop_id, a.position, 'waiting'
            from logs i
            join relaybox.sender_state s on s.stream_id = i.stream_id and s.origin = i.origin and s.stalled_after is not null
            join arrived a on a.hop_id = i.hop_id and a.sender = s.sender and a.epoch = s.epoch and a.position > s.stalled_after
        ) f
        left join logs k on k.hop_id = f.hop_id
        where (f.position < k.first_kept_position) is not true
        group by f.hop_id, f.position
    ), delivered as materialized (
        select p.place, a.* from placed p join arrived a on a.hop_id = p.hop_id and a.position = p.position
    ), fenced as materialized (
        select s.sender, max(s.epoch) as epoch from relaybox.sender_state s
        where s.stream_id = (select h.stream_id from here h) and s.begun_at is not null
        group by s.sender
    ), given_up as materialized (
        select g.sender, g.epoch, range_agg(g.indexes) as indexes
        from (
            select k.sender, k.epoch, int8range(k.first_index, k.last_index, '[]') as indexes
            from relaybox.skip k where k.stream_id = (select h.stream_id from here h)
            union all
            select a.sender, a.epoch, int8range(a.index, a.index + 1)
            from arrived a join relaybox.dead_letter d on d.hop_id = a.hop_id and d.position = a.position
            where d.subscription_id is null and starts_with(d.reason, 'clock_')
        ) g
        group by g.sender, g.epoch
    ), forgotten as (
        -- which indexes these were can't be told any more
        select exists (
            select from logs i join relaybox.dead_letter d on d.hop_id = i.hop_id and d.position < i.first_kept_position
            where d.subscription_id is null and starts_with(d.reason, 'clock_')
        ) as any_given_up
    ), runs as (
        select greatest(d.first_place, h.first_kept_place) as first_place, d.last_place,
            lag(d.last_place, 1, h.first_kept_place - 1) over (order by d.last_place) as before
        from relaybox.delivery d join here h on h.stream_id = d.stream_id and d.last_place >= h.first_kept_place
        union all
        select h.last_place + 1, null, coalesce(max(d.last_place), h.first_kept_place - 1)
        from here h left join relaybox.delivery d on d.stream_id = h.stream_id and d.last_place >= h.first_kept_place
        group by h.last_place, h.first_kept_place
    ), steps as (
        select d.place, d.sender, d.epoch, d.index, 
            coalesce(lag(d.index) over of_epoch, case when h.first_kept_place = 1 then 0 end) as before,
            max(d.epoch) over (partition by d.sender order by d.place) as highest
        from delivered d
        join here h on d.place >= h.first_kept_place and (h.delivery_order in ('fifo', 'causal') or h.delivery_order = 'total' and d.epoch = 0)
        window of_epoch as (partition by d.sender, d.epoch order by d.place)
    ), wanted as (
        select d.place, d.hop, d.position, e.sender, e.epoch, e.index
        from here h
        join delivered d on h.delivery_order = 'causal' and d.clock is not null and d.place >= h.first_kept_place
        cross join lateral relaybox.clock_entries(
            case when relaybox.clock_is_valid(d.clock, d.sender, d.epoch, d.index) then d.clock end
        ) e
        where e.sender <> d.sender
    ), broken as (
        select 'places_not_dense' as kind, r.before as at, format('place %s follows place %s', r.first_place, r.before) as example
        from runs r where r.first_place <> r.before + 1
        union all
        select 'position_lost', a.position, format('position %s of %s has no place and no reason for it', a.position, a.hop)
        from arrived a left join fates f on f.hop_id = a.hop_id and f.position = a.position where f.fate_count is null
        union all
        select 'position_decided_twice', f.position, format('position %s of %s: %s', f.position, i.hop, f.fates)
        from fates f join logs i on i.hop_id = f.hop_id where f.fate_count > 1
        union all
        select 'position_unknown', f.position, format('position %s of %s was never decided on: %s', f.position, coalesce(i.hop, 'log ' || f.hop_id), f.fates)
        from fates f
        left join arrived a on a.hop_id = f.hop_id and a.position = f.position
        left join logs i on i.hop_id = f.hop_id
        where a.position is null
        union all
        select 'index_repeated', r.place, format('place %s: index %s of %s stands at place %s already', r.place, r.index, r.sender, r.first_place)
        from (
            select d.*, min(d.place) over (partition by d.sender, d.epoch, d.index) as first_place from delivered d where d.epoch > 0
        ) r
        where r.place > r.first_place
        union all
        select 'message_id_repeated', r.place, format('place %s: position %s of %s has the id of position %s', r.place, r.position, r.hop, r.before)
        from (
            select p.place, a.*, h.message_id_window, lag(a.position) over (partition by a.hop_id, a.message_id order by a.position) as before
            from here h
            join arrived a on h.message_id_window > 0
            left join placed p on p.hop_id = a.hop_id and p.position = a.position
        ) r
        where r.place is not null and r.position - r.before <= r.message_id_window
        union all
        select 'sender_out_of_order', s.place,
            format('place %s: index %s of %s, epoch %s, follows index %s', s.place, s.index, s.sender, s.epoch, s.before)
        from steps s
        left join given_up g on g.sender = s.sender and g.epoch = s.epoch
        left join fenced f on f.sender = s.sender
        where s.index <= s.before or s.highest > s.epoch
            or s.epoch > 0 and s.index > s.before + 1 and (f.epoch > s.epoch) is not true
            and (g.indexes @> int8range(s.before + 1, s.index)) is not true and not (select f.any_given_up from forgotten f)
        union all
        select 'before_its_cause', w.place,
            format(
                'place %s comes before index %s of %s, which %s', w.place, w.index, w.sender,
                coalesce('stands at place ' || d.place, 'was not delivered')
            )
        from wanted w
        left join delivered d on d.sender = w.sender and d.epoch = w.epoch and d.index = w.index
        left join given_up g on g.sender = w.sender and g.epoch = w.epoch
        left join fenced f on f.sender = w.sender
        where d.place > w.place
            or d.place is null and (g.indexes @> w.index) is not true and (f.epoch > w.epoch) is not true and not exists (
                select from here h join relaybox.sender_state s on s.stream_id = h.stream_id
                where h.first_kept_place > 1 and s.sender = w.sender and s.epoch = w.epoch and s.watermark >= w.index
            )
    )
    select b.kind, count(*), (array_agg(b.example order by b.at))[1:5] from broken b group by b.kind
$$;

CREATE FUNCTION relaybox.clock_entries(clock jsonb) RETURNS TABLE(sender text, epoch integer, index bigint)
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $$
    select
        e.key, case jsonb_typeof(e.value) when 'array' then (e.value ->> 0)::integer else 1 end,
        case jsonb_typeof(e.value) when 'array' then (e.value ->> 1)::bigint else (e.value #>> '{}')::bigint end
    from jsonb_each(coalesce(clock, '{}')) e
$$;

CREATE FUNCTION relaybox.clock_is_valid(clock jsonb, sender_ text, epoch_ integer, index_ bigint) RETURNS boolean
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $_$
    select coalesce(jsonb_typeof(clock) = 'object', true) and coalesce(bool_and(
        case
            when e.key = sender_ then e.value = to_jsonb(index_) and epoch_ = 1 or e.value = jsonb_build_array(epoch_, index_)
            when jsonb_typeof(e.value) = 'number' then (e.value #>> '{}') ~ '^[1-9][0-9]{0,17}$'
            when jsonb_typeof(e.value) = 'array' and jsonb_array_length(e.value) = 2
                then jsonb_typeof(e.value -> 0) = 'number' and jsonb_typeof(e.value -> 1) = 'number'
                    and (e.value ->> 0) ~ '^[1-9][0-9]{0,8}$' and (e.value ->> 1) ~ '^[1-9][0-9]{0,17}$'
            else false
        end
    ), true)
    from jsonb_each(case jsonb_typeof(clock) when 'object' then clock else '{}' end) e
$_$;

CREATE FUNCTION relaybox.cluster_fingerprint(OUT system_identifier bigint, OUT timeline integer, OUT next_xid xid8) RETURNS record
    LANGUAGE sql
    AS $$
    select
        c.system_identifier,
        ('x' || left(pg_walfile_name(pg_current_wal_insert_lsn()), 8))::bit(32)::integer,
        pg_snapshot_xmax(pg_current_snapshot())
    from pg_control_system() c
$$;

CREATE FUNCTION relaybox.compact_hop_ledgers(hop_name text) RETURNS bigint
    LANGUAGE plpgsql
    SET lock_timeout TO '500ms'
    SET enable_seqscan TO 'on'
    AS $$
declare
    head relaybox.hop_out;
    begins_at bigint;
    settled bigint;
    first_needed bigint;
    through bigint;
    gone bigint;
begin
    perform relaybox.require_writable_primary();
    perform set_config('synchronous_commit', 'local', true);
    select * into head from relaybox.hop_out h where h.hop = hop_name for update;
    begins_at := case
        when head.reads_log is null then (select s.first_kept_seq from relaybox.store s)
        else relaybox.log_kept_from(head.reads_log)
    end;
    settled := case
        when head.retired_at is null then (select c.through_position from relaybox.newest_confirmation(hop_name, 'settled') c)
        else head.position + 1
    end;
    -- late messages have low seqs: batches are removed up to the first one that has a message here
    select min(b.batch) into first_needed from relaybox.batch b
    where b.hop = hop_name and (
        b.batch = head.batch or (b.last_position < settled) is not true
        or exists (select from relaybox.batch_slices(b.slices) s where s.last_read >= begins_at)
    );
    select b.last_position into through from relaybox.batch b where b.hop = hop_name and b.batch = first_needed - 1;
    if through is null then
        return 0;
    end if;
    delete from relaybox.batch b where b.hop = hop_name and b.batch < first_needed;
    get diagnostics gone = row_count;
    delete from relaybox.attempt a where a.hop = hop_name and a.batch < first_needed;
    delete from relaybox.confirmation c
    where split_part(c.hop, '/', 1) = split_part(hop_name, '/', 1) and c.through_position <= through
        and (c.hop = hop_name or not exists (select from relaybox.hop_out o where o.hop = c.hop))
        and exists (
            select from relaybox.confirmation n where n.hop = c.hop and n.state = c.state and n.through_position > c.through_position
        );
    update relaybox.hop_out set compacted_batch = first_needed - 1, compacted_position = through where hop = hop_name;
    return gone;
end
$$;

CREATE FUNCTION relaybox.compact_log_ledgers(log_id integer) RETURNS bigint
    LANGUAGE plpgsql
    SET lock_timeout TO '500ms'
    AS $$
declare
    head relaybox.hop_in;
    input relaybox.stream_log;
    here relaybox.stream;
    last record;
    gone bigint;
    kept_from bigint;
begin
    perform relaybox.require_writable_primary();
    perform set_config('synchronous_commit', 'local', true);
    select * into head from relaybox.hop_in i where i.hop_id = log_id for update;
    kept_from := relaybox.log_kept_from(log_id);
    select s.* into here from relaybox.stream s join relaybox.stream_log l using (stream_id) where l.hop_id = log_id for update of s;
    select * into input from relaybox.stream_log l where l.hop_id = log_id;
    select a.batch, a.last_position into last from relaybox.arrival a
    where a.hop_id = log_id and a.last_position < kept_from and a.batch < head.published_batch and a.batch < input.decided_batch
    order by a.last_position desc limit 1;
    if not found then
        return 0;
    end if;
    delete from relaybox.receipt r where r.hop_id = log_id and r.batch <= last.batch;
    with forgotten as (
        delete from relaybox.decision d where d.hop_id = log_id and d.batch <= last.batch returning d.duplicate_count
    )
    update relaybox.stream_log l set compacted_duplicates = l.compacted_duplicates + (select coalesce(sum(f.duplicate_count), 0) from forgotten f)
    where l.hop_id = log_id;
    delete from relaybox.arrival a where a.hop_id = log_id and a.batch <= last.batch;
    get diagnostics gone = row_count;
    delete from relaybox.delivery d
    where d.stream_id = here.stream_id and d.hop_id = log_id and d.last_place < least(here.dropped_place + 1, here.last_place)
        and coalesce((select max(u.at) from unnest(d.positions) u (at)), d.first_position + d.last_place - d.first_place) < kept_from;
    delete from relaybox.index_range r using relaybox.sender_state s
    where s.stream_id = here.stream_id and s.origin = input.origin and r.sender_id = s.sender_id and r.last_position < kept_from;
    update relaybox.hop_in set compacted_batch = last.batch, compacted_position = last.last_position where hop_id = log_id;
    return gone;
end
$$;

CREATE FUNCTION relaybox.confirm_processed(hop_name text, through_position_ bigint, happened_at_ timestamp with time zone, recorded_by_ text) RETURNS void
    LANGUAGE plpgsql
    AS $$
begin
    perform relaybox.require_writable_primary();
    set local synchronous_commit = on;
    insert into relaybox.confirmation (hop, state, through_position, through_batch, happened_at, recorded_by)
    select hop_name, 'processed', b.last_position, b.batch, happened_at_, recorded_by_
    from relaybox.batch b
    where b.hop = hop_name
        and b.last_position <= least(through_position_, coalesce((
            select c.through_position from relaybox.newest_confirmation(hop_name, 'received') c
        ), 0))
    order by b.last_position desc
    limit 1
    on conflict do nothing;
end
$$;

CREATE FUNCTION relaybox.confirm_received(hop_name text, batch_ bigint, plan_id_ uuid, happened_at_ timestamp with time zone, recorded_by_ text) RETURNS void
    LANGUAGE plpgsql
    AS $$
declare
    planned relaybox.batch;
begin
    perform relaybox.require_writable_primary();
    set local synchronous_commit = on;
    if exists (select from relaybox.hop_out h where h.hop = hop_name and h.compacted_batch >= batch_) then
        return;  -- settled long ago
    end if;
    select * into planned from relaybox.batch b where b.hop = hop_name and b.batch = batch_;
    if not found then
        raise exception using errcode = 'RB011',
            message = format(
                'hop %s: the destination holds batch %s, the ledger here ends at %s',
                hop_name, batch_, (select h.batch from relaybox.hop_out h where h.hop = hop_name)
            ),
            hint = 'The source lost history. Nothing was moved. See what is missing with: relaybox reanchor ' || hop_name;
    end if;
    if planned.plan_id <> plan_id_ then
        raise exception using errcode = 'RB012',
            message = format('hop %s: the destination holds batch %s with plan %s, the ledger here has plan %s', hop_name, batch_, plan_id_, planned.plan_id),
            hint = 'The source lost history after this batch was sent. See what is missing with: relaybox reanchor ' || hop_name;
    end if;
    insert into relaybox.confirmation (hop, state, through_position, through_batch, happened_at, recorded_by)
    values (hop_name, 'received', planned.last_position, batch_, happened_at_, recorded_by_)
    on conflict do nothing;
end
$$;

CREATE FUNCTION relaybox.confirm_settled(hop_name text, through_position_ bigint, happened_at_ timestamp with time zone, recorded_by_ text) RETURNS bigint
    LANGUAGE plpgsql
    AS $$
declare
    settled_batch relaybox.batch;
    bounding text;
begin
    perform relaybox.require_writable_primary();
    set local synchronous_commit = on;
    select case when h.processed_by is null then 'received' else 'processed' end into bounding
    from relaybox.hop_out h where h.hop = hop_name for update;
    if not found then
        raise exception using errcode = 'RB004', message = format('hop %s does not leave this store', hop_name), hint = 'Run: relaybox init';
    end if;
    select b.* into settled_batch
    from relaybox.batch b
    where b.hop = hop_name
        and b.last_position <= least(through_position_, coalesce((
            select c.through_position from relaybox.newest_confirmation(hop_name, bounding) c
        ), 0))
    order by b.last_position desc
    limit 1;
    if found then
        insert into relaybox.confirmation (hop, state, through_position, through_batch, happened_at, recorded_by)
        values (hop_name, 'settled', settled_batch.last_position, settled_batch.batch, happened_at_, recorded_by_)
        on conflict do nothing;
    end if;
    return coalesce((select c.through_position from relaybox.newest_confirmation(hop_name, 'settled') c), 0);
end
$$;

CREATE FUNCTION relaybox.confirmation_of(hop_name text, state_ text, position_ bigint) RETURNS TABLE(recorded_at timestamp with time zone, recorded_by text)
    LANGUAGE sql STABLE
    AS $$
    select c.recorded_at, c.recorded_by
    from relaybox.confirmation c
    where c.hop = hop_name and c.state = state_ and c.through_position >= position_
    order by c.through_position
    limit 1
$$;

CREATE FUNCTION relaybox.confirmations_after(hop_name text, received_after bigint, processed_after bigint, settled_after bigint) RETURNS TABLE(state text, through_position bigint, through_batch bigint, happened_at timestamp with time zone)
    LANGUAGE sql STABLE
    AS $$
    select c.state, c.through_position, c.through_batch, c.happened_at
    from relaybox.confirmation c
    where c.hop = hop_name
        and c.through_position > case c.state when 'received' then received_after when 'processed' then processed_after else settled_after end
    order by c.state, c.through_position
$$;

CREATE FUNCTION relaybox.count_quarters(log_id integer, first_position bigint, last_position bigint) RETURNS TABLE(quarter integer, sender text, epoch integer, row_count bigint, first_index bigint, last_index bigint, ascending boolean, first_sent_at timestamp with time zone)
    LANGUAGE plpgsql STABLE
    SET enable_sort TO 'off'
    SET enable_hashagg TO 'on'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_indexscan TO 'on'
    SET min_parallel_table_scan_size TO '1TB'
    SET min_parallel_index_scan_size TO '1TB'
    SET parallel_setup_cost TO '0'
    SET parallel_tuple_cost TO '0'
    SET work_mem TO '64MB'
    SET jit TO 'off'
    AS $_$
declare
    quarters integer := case when last_position - first_position < 20000 then 1 else 4 end;
    step bigint := (last_position - first_position) / quarters + 1;
    one_quarter constant text := '
        select %s as quarter, l.sender, l.epoch, array_agg(l.index) as indexes, min(l.sent_at) as first_sent_at
        from (
            select m.sender, m.epoch, m.index, m.sent_at from relaybox.log m
            where m.hop_id = $1 and m.position >= %s and m.position <= %s order by m.position
        ) l
        group by l.sender, l.epoch';
begin
    return query execute (
        select 'select a.quarter, a.sender, a.epoch, a.row_count,
                case when a.ascending then a.indexes[1] else (select min(i) from unnest(a.indexes) i) end,
                a.indexes[a.row_count], a.ascending, a.first_sent_at
            from (
                select q.quarter, q.sender, q.epoch, q.indexes, q.first_sent_at, cardinality(q.indexes)::bigint as row_count,
                    q.indexes = array(
                        select least(q.indexes[1], 9223372036854775807 - cardinality(q.indexes)) + n
                        from generate_series(0, cardinality(q.indexes) - 1) n
                    ) as ascending
                from (' || string_agg(
            format(one_quarter, q, first_position + q * step, least(first_position + (q + 1) * step - 1, last_position)), ' union all ' order by q
        ) || ') q
                offset 0
            ) a'
        from generate_series(0, quarters - 1) q
    ) using log_id;
end
$_$;

CREATE FUNCTION relaybox.count_senders(log_id integer, first_position bigint, last_position bigint) RETURNS TABLE(sender text, epoch integer, row_count bigint, first_index bigint, last_index bigint, ascending boolean, first_sent_at timestamp with time zone)
    LANGUAGE sql STABLE
    AS $$
    select q.sender, q.epoch, sum(q.row_count)::bigint, min(q.first_index), max(q.last_index), bool_and(q.ascending and q.follows),
        min(q.first_sent_at)
    from (
        select c.*, coalesce(c.first_index = lag(c.last_index) over (partition by c.sender, c.epoch order by c.quarter) + 1, true) as follows
        from relaybox.count_quarters(log_id, first_position, last_position) c
    ) q
    group by q.sender, q.epoch
$$;

CREATE FUNCTION relaybox.cursor_at(c relaybox.cursor, place_ bigint) RETURNS relaybox.cursor
    LANGUAGE plpgsql STABLE
    AS $$
begin
    c.done_place := place_;
    c.fetched_place := place_;
    c.redrive_place := null;
    c.fetch_count := 0;
    c.suspect_place := 0;
    c.suspect_rows := null;
    c.worker := null;
    c.leased_until := null;
    return c;
end
$$;

CREATE FUNCTION relaybox.declare_sender(sender text, kind text) RETURNS integer
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'relaybox', 'pg_temp'
    AS $$
declare
    origin_here text := (select s.store from relaybox.store s);
    declared relaybox.sender;
begin
    set local synchronous_commit = on;
    perform relaybox.require_sender_role(declare_sender.sender);
    perform relaybox.require_sender_kind(declare_sender.sender, declare_sender.kind);
    insert into relaybox.sender (origin, sender, epoch, kind)
    select origin_here, declare_sender.sender, 1, declare_sender.kind
    where not exists (select from relaybox.sender s where s.origin = origin_here and s.sender = declare_sender.sender)
    on conflict do nothing;
    insert into relaybox.sender_counter (sender, epoch) values (declare_sender.sender, 1) on conflict do nothing;
    select s.* into declared from relaybox.sender s
    where s.origin = origin_here and s.sender = declare_sender.sender
    order by s.epoch desc
    limit 1;
    if declared.kind <> declare_sender.kind then
        raise exception using errcode = 'RB021',
            message = format('sender %s is %s here since epoch %s, not %s', declared.sender, declared.kind, declared.epoch, declare_sender.kind),
            hint = format('Another kind is a new epoch: select relaybox.new_epoch(%L, %L)', declared.sender, declare_sender.kind);
    end if;
    return declared.epoch;
end
$$;

CREATE TABLE relaybox.stream_log (
    hop_id integer NOT NULL,
    stream_id integer NOT NULL,
    origin text NOT NULL,
    decided_batch bigint DEFAULT 0 NOT NULL,
    decided_position bigint DEFAULT 0 NOT NULL,
    senders_seen pg_snapshot,
    compacted_duplicates bigint DEFAULT 0 NOT NULL,
    senders_taken bigint
);

COMMENT ON COLUMN relaybox.stream_log.senders_seen IS 'the source''s snapshot through which its declarations of senders are here';

COMMENT ON COLUMN relaybox.stream_log.compacted_duplicates IS 'duplicates that the removed decisions had counted';

COMMENT ON COLUMN relaybox.stream_log.senders_taken IS 'stream.taken before the source was asked last: what had arrived by then names no sender that the source declares later';

CREATE FUNCTION relaybox.deliver_held(here relaybox.stream, input relaybox.stream_log) RETURNS void
    LANGUAGE plpgsql
    AS $$
declare
    placed bigint;
begin
    here.recheck := true;
    perform relaybox.judge_batch(here, input, null, input.decided_position + 1, input.decided_position);
    placed := relaybox.place_messages(here, input.hop_id, input.decided_position + 1, input.decided_position);
    perform relaybox.set_aside_judged(here);
    update relaybox.decision d set
        delivered_count = d.delivered_count + placed, last_place = here.last_place + placed,
        duplicate_count = d.duplicate_count + (select count(*) from pg_temp.judged j where j.verdict = 'duplicate'),
        duplicates = d.duplicates || (select array_agg(j.position order by j.position) from pg_temp.judged j where j.verdict = 'duplicate'),
        set_aside_count = d.set_aside_count + (select count(*) from pg_temp.judged j where j.verdict <> 'duplicate')
    where d.hop_id = input.hop_id and d.batch = input.decided_batch;
    perform relaybox.settle_senders(here, input.hop_id, input.decided_position + 1, input.decided_position);
    update relaybox.decision d set
        held_after = (select count(*) from relaybox.held h where h.stream_id = here.stream_id),
        resolved_position = relaybox.resolved_position(input.hop_id)
    where d.hop_id = input.hop_id and d.batch = input.decided_batch;
    update relaybox.stream s set last_place = here.last_place + placed, recheck = false where s.stream_id = here.stream_id;
end
$$;

CREATE TABLE relaybox.decision (
    hop_id integer NOT NULL,
    batch bigint NOT NULL,
    first_taken bigint NOT NULL,
    row_count bigint NOT NULL,
    duplicate_count bigint NOT NULL,
    set_aside_count bigint NOT NULL,
    delivered_count bigint NOT NULL,
    held_after bigint NOT NULL,
    last_place bigint NOT NULL,
    duplicates bigint[],
    in_order boolean NOT NULL,
    decided_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    resolved_position bigint
);

COMMENT ON COLUMN relaybox.decision.first_taken IS 'arrival number of the batch''s first row in its stream';

COMMENT ON COLUMN relaybox.decision.delivered_count IS 'messages that this batch let through, those held before included';

COMMENT ON COLUMN relaybox.decision.held_after IS 'messages of the stream in the holdback after this batch';

COMMENT ON COLUMN relaybox.decision.resolved_position IS 'every message of the log up to it was delivered, dropped or set aside when this was decided: none was held or waited; null: not asked then';

CREATE FUNCTION relaybox.deliver_next(log_id integer) RETURNS relaybox.decision
    LANGUAGE plpgsql
    AS $$
declare
    here relaybox.stream;
    input relaybox.stream_log;
    batch relaybox.arrival;
    decided relaybox.decision;
    is_in_order boolean;
    has_judged boolean;
    ends bigint;
    placed bigint;
    counted record;
begin
    perform relaybox.require_writable_primary();
    set local synchronous_commit = on;
    select s.* into here from relaybox.stream s join relaybox.stream_log l using (stream_id) where l.hop_id = log_id for update of s;
    if not found then
        raise exception using errcode = 'RB004', message = format('log %s belongs to no stream', log_id), hint = 'Run: relaybox init';
    end if;
    -- its own statement, after the lock
    select * into input from relaybox.stream_log l where l.hop_id = log_id;
    select * into batch from relaybox.arrival a where a.hop_id = log_id and a.batch > input.decided_batch order by a.batch limit 1;
    if not found then
        if here.recheck or relaybox.holds_unknown_causes(here) or relaybox.has_sender_to_take_up(here.stream_id, input.origin) then
            perform relaybox.deliver_held(here, input);
        end if;
        return null;
    end if;
    ends := here.taken + batch.row_count;
    is_in_order := not coalesce(batch.has_own_indexes, true) and here.message_id_window = 0 and here.delivery_order <> 'causal'
        and not here.recheck;
    has_judged := not is_in_order;
    if has_judged then
        perform relaybox.judge_batch(here, input, batch.batch, batch.first_position, batch.last_position);
        is_in_order := not here.recheck and not exists (select from pg_temp.batch_sender where not in_order);
    end if;
    if is_in_order then
        perform relaybox.append_run(here, log_id, batch.first_position, batch.last_position);
        placed := batch.row_count;
        if has_judged then
            perform relaybox.settle_senders(here, log_id, batch.first_position, batch.last_position);
        end if;
        select 0::bigint as duplicate_count, 0::bigint as set_aside_count, null::bigint[] as duplicates into counted;
    else
        placed := relaybox.place_messages(here, log_id, batch.first_position, batch.last_position);
        select count(*) filter (where j.verdict = 'duplicate') as duplicate_count,
            count(*) filter (where j.verdict is not null and j.verdict <> 'duplicate') as set_aside_count,
            array_agg(j.position order by j.position) filter (where j.verdict = 'duplicate') as duplicates
        into counted from pg_temp.judged j;
        perform relaybox.set_aside_judged(here);
        perform relaybox.settle_senders(here, log_id, batch.first_position, batch.last_position);
    end if;
    update relaybox.stream s set taken = ends, last_place = here.last_place + placed, recheck = false where s.stream_id = here.stream_id;
    update relaybox.stream_log l set decided_batch = batch.batch, decided_position = batch.last_position where l.hop_id = log_id;
    insert into relaybox.decision (
        hop_id, batch, first_taken, row_count, duplicate_count, set_aside_count, delivered_count, held_after, last_place, duplicates, in_order,
        resolved_position
    )
    values (
        log_id, batch.batch, here.taken + 1, batch.row_count, counted.duplicate_count, counted.set_aside_count, placed,
        (select count(*) from relaybox.held h where h.stream_id = here.stream_id), here.last_place + placed, counted.duplicates, is_in_order,
        relaybox.resolved_position(log_id)
    )
    returning * into decided;
    return decided;
end
$$;

CREATE FUNCTION relaybox.detachable_segments(log_id integer) RETURNS TABLE(segment regclass, first bigint, last bigint, for_whom text[])
    LANGUAGE sql STABLE
    AS $$
    with needed as materialized (
        select * from relaybox.holders(log_id)
    )
    select s.segment, s.first, s.last, array(select distinct n.holder from needed n where n.detachable and n.needs_from <= s.last order by 1)
    from relaybox.segments() s
    where s.hop_id = log_id and s.last < (select min(n.needs_from) from needed n where not n.detachable)
        and exists (select from needed n where n.detachable and n.needs_from <= s.last)
    order by s.first
$$;

CREATE FUNCTION relaybox.doubled_messages(log_id integer, through_position bigint) RETURNS TABLE(message_id uuid, positions bigint[])
    LANGUAGE sql STABLE
    AS $$
    select l.message_id, array_agg(l.position order by l.position)
    from relaybox.log l
    where l.hop_id = log_id
        and l.message_id in (
            select d.message_id from relaybox.log d
            where d.hop_id = log_id and d.position <= through_position
            group by d.message_id
            having count(*) > 1
        )
        and l.position <= through_position
    group by l.message_id
$$;

CREATE FUNCTION relaybox.drop_dead_letter(letter bigint, reason text) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'relaybox', 'pg_temp'
    AS $$
declare
    dropped relaybox.dead_letter;
begin
    perform relaybox.require_reason(reason, 'a dead letter is dropped', 'drop_dead_letter(letter, ''why'')');
    perform from relaybox.lane l
    join relaybox.dead_letter d on d.subscription_id = l.subscription_id and d.lane = l.lane
    where d.dead_letter_id = letter
    for update of l;
    update relaybox.dead_letter d
    set state = 'dropped', settled_at = clock_timestamp(), settled_by = session_user, settled_reason = drop_dead_letter.reason
    where d.dead_letter_id = letter and d.state = 'open'
    returning * into dropped;
    if not found then
        raise exception using errcode = 'RB037', message = format('there is no open dead letter %s in this store', letter),
            hint = 'See: relaybox dead-letters list';
    end if;
    update relaybox.dead_letter d set state = 'redriving'
    where d.subscription_id = dropped.subscription_id and d.lane = dropped.lane and d.sender = dropped.sender
        and d.state = 'open' and d.reason = 'waits_behind' and d.place > dropped.place
        and not exists (
            select from relaybox.dead_letter b
            where b.subscription_id = d.subscription_id and b.lane = d.lane and b.sender = d.sender
                and b.state = 'open' and b.reason <> 'waits_behind' and b.place < d.place
        );
    perform relaybox.record_action(
        coalesce((select s.subscription from relaybox.subscription s where s.subscription_id = dropped.subscription_id), (
            select s.stream from relaybox.stream s where s.stream_id = dropped.stream_id
        )), 'drop', drop_dead_letter.reason, jsonb_build_object('letter', letter, 'place', dropped.place, 'why_dead', dropped.reason)
    );
end
$$;

CREATE FUNCTION relaybox.drop_oldest_segment(log_id integer, recorded_by text, detach_first bigint DEFAULT NULL::bigint, detach_attempt integer DEFAULT NULL::integer, OUT outcome text, OUT segment text, OUT holder text, OUT bytes bigint) RETURNS record
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
    SET lock_timeout TO '200ms'
    AS $_$
declare
    parent regclass := to_regclass(case when log_id is null then 'relaybox.outbox' else format('relaybox.log_%s', log_id) end);
    oldest record;
    held record;
    checked pg_snapshot;
    late bigint;
    place_ bigint;
    hops_before text;
    hops_now text;
begin
    perform relaybox.require_writable_primary();
    -- what it rests on is durable already; a silent standby must not keep the lock on the table
    perform set_config('synchronous_commit', 'local', true);
    begin
        -- looked at without a lock: a long backlog takes its time, and hops are to be planned meanwhile
        hops_before := relaybox.hops_fingerprint(log_id);
        checked := pg_current_snapshot();
        select s.* into oldest from relaybox.segments() s where s.hop_id is not distinct from log_id order by s.first limit 1;
        if not found then
            outcome := 'none';
            return;
        end if;
        if detach_first <> oldest.first then
            outcome := 'superseded';
            return;
        end if;
        segment := oldest.segment::text;
        bytes := pg_total_relation_size(oldest.segment);
        select h.* into held from relaybox.holders(log_id) h
        where detach_attempt is null or not h.detachable order by h.needs_from, h.kind limit 1;
        if held.needs_from <= oldest.last then
            outcome := 'kept';
            holder := format('%s %s', held.kind, held.holder);
            return;
        end if;
        late := case when log_id is null then relaybox.unrouted_seq(oldest.last) end;
        if late is not null then
            outcome := 'kept';
            holder := format('unrouted topic %s', (select o.topic from relaybox.outbox o where o.seq = late));
            return;
        end if;
        perform pg_advisory_xact_lock(case when log_id is null then 'relaybox.outbox' else 'relaybox.log' end::regclass::oid::bigint);
        perform from relaybox.hop_in i where i.hop_id = log_id for update;
        perform from relaybox.hop_out h where h.reads_log is not distinct from log_id order by h.hop for update;
        perform from relaybox.stream s where s.stream_id = (select l.stream_id from relaybox.stream_log l where l.hop_id = log_id) for update;
        -- later statements than the locks
        hops_now := relaybox.hops_fingerprint(log_id);
        if hops_now is distinct from hops_before
            or oldest.first <> (select min(s.first) from relaybox.segments() s where s.hop_id is not distinct from log_id)
        then
            outcome := 'busy';
            holder := 'a hop that changed, or another retention';
            return;
        end if;
        if detach_attempt is not null then
            perform from relaybox.detached_segment d
            where d.hop_id = log_id and d.first = oldest.first and d.state = 'detaching' and d.attempt = detach_attempt for update;
            if not found then
                outcome := 'superseded';
                return;
            end if;
            perform relaybox.fence_lanes(log_id, oldest.last);
        end if;
        if log_id is not null then
            select h.* into held from relaybox.log_holders(log_id) h
            where h.needs_from <= oldest.last and (detach_attempt is null or not h.detachable) order by h.needs_from, h.kind limit 1;
            if found then
                outcome := 'kept';
                holder := format('%s %s', held.kind, held.holder);
                return;
            end if;
        end if;
        execute format('lock table %s in access exclusive mode', parent);
        if log_id is null then
            -- nobody writes now; whoever has committed since the look above is in nobody's batch yet
            execute format(
                'select min(o.seq) from %s o where o.xid >= pg_snapshot_xmax($1) or o.xid = any(array(select pg_snapshot_xip($1)))', oldest.segment
            ) into late using checked;
            if late is not null then
                outcome := 'kept';
                holder := 'a sender that committed just now';
                return;
            end if;
            update relaybox.store set first_kept_seq = oldest.last + 1;
        else
            select relaybox.last_place_through(l.stream_id, log_id, oldest.last) into place_ from relaybox.stream_log l where l.hop_id = log_id;
            update relaybox.stream s set first_kept_place = greatest(s.first_kept_place, place_ + 1),
                dropped_place = case when detach_attempt is null then greatest(s.dropped_place, place_) else s.dropped_place end
            where s.stream_id = (select l.stream_id from relaybox.stream_log l where l.hop_id = log_id);
            update relaybox.hop_in set first_kept_position = oldest.last + 1 where hop_id = log_id;
        end if;
        execute format('drop table %s', oldest.segment);
        outcome := case when detach_attempt is null then 'dropped' else 'detached' end;
        update relaybox.detached_segment d
        set state = case when detach_attempt is null then 'released' else 'detached' end, moved_at = clock_timestamp(), moved_by = recorded_by
        where d.hop_id = log_id and d.first = oldest.first;
        if detach_attempt is null then
            insert into relaybox.dropped_segment (segment, hop, first, last, bytes, dropped_by)
            values (
                segment, (select i.hop from relaybox.hop_in i where i.hop_id = log_id), oldest.first, oldest.last, drop_oldest_segment.bytes, recorded_by
            );
        end if;
    exception when lock_not_available then
        outcome := 'busy';
        holder := (
            select string_agg(distinct format('%s (pid %s, %s since %s)',
                coalesce(nullif(a.application_name, ''), a.usename, 'a prepared transaction'), coalesce(l.pid::text, 'none'),
                coalesce(a.state, 'prepared'), coalesce(to_char(a.xact_start at time zone 'UTC', 'HH24:MI:SS'), 'unknown')), ', ')
            from pg_locks l
            left join pg_stat_activity a on a.pid = l.pid
            where l.relation = parent and l.granted and l.pid is distinct from pg_backend_pid()
                and l.database = (select d.oid from pg_database d where d.datname = current_database())
        );
    end;
end
$_$;

CREATE TABLE relaybox.arrival (
    hop_id integer NOT NULL,
    batch bigint NOT NULL,
    plan_id uuid NOT NULL,
    first_position bigint NOT NULL,
    last_position bigint NOT NULL,
    row_count bigint NOT NULL,
    slice_count integer NOT NULL,
    source_system_identifier bigint NOT NULL,
    source_timeline integer NOT NULL,
    published_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    has_own_indexes boolean,
    CONSTRAINT arrival_positions_dense CHECK ((((last_position - first_position) + 1) = row_count))
);

CREATE FUNCTION relaybox.durable_arrival(log_id integer) RETURNS relaybox.arrival
    LANGUAGE plpgsql
    AS $$
declare
    newest relaybox.arrival;
begin
    perform relaybox.require_writable_primary();
    set local synchronous_commit = on;
    perform from relaybox.hop_in i where i.hop_id = log_id for update;
    select a.* into newest
    from relaybox.hop_in i
    join relaybox.arrival a on a.hop_id = i.hop_id and a.batch = i.published_batch
    where i.hop_id = log_id;
    return newest;
end
$$;

CREATE FUNCTION relaybox.end_older_attempts(hop_name text, batch_ bigint, slice_ integer, attempt_ bigint) RETURNS integer
    LANGUAGE sql
    AS $_$
    select count(pg_terminate_backend(a.pid))::integer
    from pg_stat_activity a
    where a.datname = current_database()
        and a.pid <> pg_backend_pid()
        and starts_with(a.application_name, format('relaybox %s b%s s%s a', left(hop_name, 30), batch_, slice_))
        and substring(a.application_name from ' a([0-9]+)$')::bigint <= attempt_
$_$;

CREATE FUNCTION relaybox.end_resending(hop_name text) RETURNS void
    LANGUAGE sql
    AS $$
    update relaybox.hop_out set resend_through = 0 where hop = hop_name
$$;

CREATE FUNCTION relaybox.ensure_log_segments(log_id integer, through_position bigint) RETURNS text[]
    LANGUAGE plpgsql
    AS $$
declare
    size bigint := (select s.segment_rows from relaybox.store s);
    made text[] := '{}';
    segment text;
begin
    perform relaybox.require_writable_primary();
    for k in (select i.published_position / size from relaybox.hop_in i where i.hop_id = log_id) .. through_position / size + 1 loop
        segment := format('log_%s_s%s', log_id, lpad(k::text, 6, '0'));
        if to_regclass('relaybox.' || segment) is null then
            -- one maker at a time; two drivers may be here
            perform pg_advisory_xact_lock('relaybox.log'::regclass::oid::bigint);
            if to_regclass('relaybox.' || segment) is null then
                execute format('create table relaybox.%I (like relaybox.log_%s including defaults including constraints)', segment, log_id);
                execute format('alter table relaybox.log_%s attach partition relaybox.%I for values from (%s) to (%s)', log_id, segment, k * size, (k + 1) * size);
                made := made || segment;
            end if;
        end if;
    end loop;
    return made;
end
$$;

CREATE FUNCTION relaybox.ensure_outbox_segments(ahead_count integer DEFAULT 4) RETURNS text[]
    LANGUAGE plpgsql
    SET lock_timeout TO '200ms'
    AS $$
declare
    size bigint := (select s.segment_rows from relaybox.store s);
    next_seq bigint := (select case when q.is_called then q.last_value + 1 else q.last_value end from relaybox.outbox_seq q);
    covered bigint;
    overflow_last bigint;
    made text[] := '{}';
    segment text;
    upper_end bigint;
begin
    begin
        -- one maker at a time; the key is the oid of the table
        perform pg_advisory_xact_lock('relaybox.outbox'::regclass::oid::bigint);
        covered := relaybox.outbox_covered();
        select max(o.seq) into overflow_last from relaybox.outbox_overflow o;
        if overflow_last is not null then
            -- ACCESS EXCLUSIVE on the outbox for a moment: only after an outage longer than all the segments made ahead
            lock table relaybox.outbox in access exclusive mode;
            select max(o.seq) into overflow_last from relaybox.outbox_overflow o;
            segment := format('outbox_s%s', lpad((covered / size)::text, 6, '0'));
            overflow_last := (overflow_last / size + 1) * size;
            alter table relaybox.outbox detach partition relaybox.outbox_overflow;
            execute format('alter table relaybox.outbox_overflow rename to %I', segment);
            execute format('alter table relaybox.outbox attach partition relaybox.%I for values from (%s) to (%s)', segment, covered, overflow_last);
            create table relaybox.outbox_overflow partition of relaybox.outbox default;
            made := made || segment;
            covered := overflow_last;
        end if;
        while covered < next_seq + ahead_count * size loop
            -- a jump of the sequence is covered by one wide segment
            upper_end := greatest(covered + size, next_seq / size * size);
            segment := format('outbox_s%s', lpad((covered / size)::text, 6, '0'));
            execute format('create table relaybox.%I (like relaybox.outbox including defaults including constraints)', segment);
            execute format('alter table relaybox.outbox attach partition relaybox.%I for values from (%s) to (%s)', segment, covered, upper_end);
            made := made || segment;
            covered := upper_end;
        end loop;
    exception when lock_not_available then
        made := '{}';
    end;
    return made;
end
$$;

CREATE FUNCTION relaybox.estimate_range(known relaybox.subscription, first_place bigint, last_place bigint, OUT message_count bigint, OUT byte_count bigint, OUT read_seconds double precision) RETURNS record
    LANGUAGE plpgsql
    AS $$
declare
    place_count bigint := greatest(0, last_place - first_place + 1);
    stream_name text := (select s.stream from relaybox.stream s where s.stream_id = known.stream_id);
    begun timestamptz := clock_timestamp();
    sample record;
begin
    select count(*) as rows_read, count(*) filter (where known.topic is null or r.topic = known.topic) as matching,
        coalesce(sum(
            coalesce(octet_length(r.payload), octet_length(r.payload_bytes)) + coalesce(octet_length(r.headers::text), 0)
        ) filter (where known.topic is null or r.topic = known.topic), 0) as bytes
    into sample
    from generate_series(0, least(9, (place_count - 1) / 100)) as chunk (n),
        relaybox.read_stream(stream_name, first_place - 1 + chunk.n * (place_count / 10), least(100, place_count)::integer) r
    where r.place <= last_place;
    if place_count = 0 or sample.rows_read = 0 then
        message_count := 0;
        byte_count := 0;
        read_seconds := 0;
        return;
    end if;
    message_count := place_count * sample.matching / sample.rows_read;
    byte_count := place_count * sample.bytes / sample.rows_read;
    read_seconds := extract(epoch from clock_timestamp() - begun) * place_count / sample.rows_read;
end
$$;

CREATE FUNCTION relaybox.every_transaction() RETURNS pg_snapshot
    LANGUAGE sql IMMUTABLE
    AS $$
    select '9223372036854775807:9223372036854775807:'::pg_snapshot
$$;

CREATE FUNCTION relaybox.fence_lanes(log_id integer, through_position bigint) RETURNS void
    LANGUAGE plpgsql
    AS $$
declare
    here relaybox.stream_log;
    last_place_ bigint;
    behind relaybox.lane;
    c relaybox.cursor;
begin
    select * into here from relaybox.stream_log l where l.hop_id = log_id;
    last_place_ := relaybox.last_place_through(here.stream_id, log_id, through_position);
    for behind in
        select k.subscription_id, k.lane
        from relaybox.lane_cursors k join relaybox.subscription n on n.subscription_id = k.subscription_id
        where n.stream_id = here.stream_id and n.ended_at is null and k.done_place < last_place_
        order by k.subscription_id, k.lane
    loop
        perform from relaybox.lane l where l.subscription_id = behind.subscription_id and l.lane = behind.lane for update;
        -- a later statement than the lock
        select * into c from relaybox.lane_cursors k where k.subscription_id = behind.subscription_id and k.lane = behind.lane;
        if found then
            c.version := c.version + 1; -- moved_at stays: standing still is what it does
            insert into relaybox.cursor select c.*;
        end if;
    end loop;
end
$$;

CREATE FUNCTION relaybox."fetch"(subscription text, max_count integer DEFAULT 100, acked_place bigint DEFAULT NULL::bigint, acked_lane integer DEFAULT 1, only_lane integer DEFAULT NULL::integer, worker text DEFAULT NULL::text) RETURNS TABLE(place bigint, lane integer, replayed boolean, attempt integer, hop text, "position" bigint, message_id uuid, topic text, sender text, epoch integer, index bigint, key text, payload text, payload_bytes bytea, headers jsonb, clock jsonb, sent_at timestamp with time zone)
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'relaybox', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET jit TO 'off'
    SET work_mem TO '64MB'
    SET plan_cache_mode TO 'force_generic_plan'
    AS $$
declare
    known relaybox.subscription := relaybox.subscription_named("fetch".subscription);
    c relaybox.cursor;
    run record;
    first bigint;
    last bigint;
    excluded bigint[];
    retried boolean;
begin
    if max_count is null or max_count < 1 then
        raise exception using errcode = 'RB036', message = format('max_count is %s, it must be 1 or more', coalesce(max_count::text, 'null'));
    end if;
    c := relaybox.take_lane(known, max_count, acked_place, acked_lane, only_lane, relaybox.worker_name("fetch".worker));
    if c.worker is null then
        return;
    end if;
    retried := exists (select from relaybox.failed_attempt f where f.subscription_id = c.subscription_id and f.lane = c.lane);
    if c.redrive_place is not null then
        return query
        select
            d.place, c.lane, true, c.fetch_count + d.attempts, i.hop, l.position, l.message_id, l.topic, l.sender,
            l.epoch, l.index, l.key, l.payload, l.payload_bytes, l.headers, l.clock, l.sent_at
        from relaybox.dead_letter d
        join relaybox.hop_in i on i.hop_id = d.hop_id
        join relaybox.log l on l.hop_id = d.hop_id and l.position = d.position
        where d.subscription_id = c.subscription_id and d.lane = c.lane and d.state = 'redriving' and d.place <= c.redrive_place
        order by d.place;
        return;
    end if;
    excluded := relaybox.set_aside_places(known, c.done_place, c.fetched_place);
    for run in
        select d.first_place, d.last_place, d.hop_id, i.hop, d.first_position, d.positions
        from relaybox.delivery d
        join relaybox.hop_in i on i.hop_id = d.hop_id
        where d.stream_id = known.stream_id and d.last_place > c.done_place
        order by d.last_place
    loop
        exit when run.first_place > c.fetched_place;
        first := greatest(run.first_place, c.done_place + 1) - run.first_place;
        last := least(run.last_place, c.fetched_place) - run.first_place;
        if run.positions is null then
            return query
            select
                run.first_place + l.position - run.first_position, c.lane, run.first_place + l.position - run.first_position <= c.replay_place,
                c.fetch_count + case when retried then relaybox.attempts_at(known, run.first_place + l.position - run.first_position) else 0 end,
                run.hop, l.position, l.message_id, l.topic, l.sender,
                l.epoch, l.index, l.key, l.payload, l.payload_bytes, l.headers, l.clock, l.sent_at
            from relaybox.log l
            where l.hop_id = run.hop_id and l.position >= run.first_position + first and l.position <= run.first_position + last
                and (known.topic is null or l.topic = known.topic)
                and (known.lanes = 1 or relaybox.lane_of(known.lane_by, known.lanes, l.sender, l.key) = c.lane)
                and run.first_place + l.position - run.first_position <> all(excluded)
            order by l.position;
        else
            return query
            select
                run.first_place + first + u.n - 1, c.lane, run.first_place + first + u.n - 1 <= c.replay_place,
                c.fetch_count + case when retried then relaybox.attempts_at(known, run.first_place + first + u.n - 1) else 0 end,
                run.hop, l.position, l.message_id, l.topic, l.sender,
                l.epoch, l.index, l.key, l.payload, l.payload_bytes, l.headers, l.clock, l.sent_at
            from unnest(run.positions[first + 1:last + 1]) with ordinality u (wanted, n)
            join relaybox.log l on l.hop_id = run.hop_id and l.position = u.wanted
            where (known.topic is null or l.topic = known.topic)
                and (known.lanes = 1 or relaybox.lane_of(known.lane_by, known.lanes, l.sender, l.key) = c.lane)
                and run.first_place + first + u.n - 1 <> all(excluded)
            order by u.n;
        end if;
    end loop;
end
$$;

CREATE FUNCTION relaybox.fetched_again(c relaybox.cursor, known relaybox.subscription, worker_ text) RETURNS relaybox.cursor
    LANGUAGE plpgsql
    AS $$
declare
    fetched_ bigint;
    first bigint;
begin
    if c.redrive_place is null and c.fetched_place = c.done_place then
        return c;
    end if;
    if c.redrive_place is not null then
        select count(*), min(d.place) into fetched_, first from relaybox.dead_letter d
        where d.subscription_id = known.subscription_id and d.lane = c.lane and d.state = 'redriving' and d.place <= c.redrive_place;
        if fetched_ > 1 and c.fetch_count >= known.crash_limit then
            c.redrive_place := first;
            c.fetch_count := 0;
        elsif fetched_ = 1 and c.fetch_count >= known.crash_limit then
            perform relaybox.set_aside(c, known, first, 'killed_its_worker', format('fetched %s times without a word', c.fetch_count), c.fetch_count, coalesce(c.worker, worker_));
            c.redrive_place := null;
        elsif fetched_ = 0 then
            c.redrive_place := null;
        end if;
    else
        if c.fetch_count >= known.crash_limit then
            select s.row_count into fetched_ from relaybox.scan_lane(known, c.lane, c.done_place, c.fetched_place, c.fetched_place - c.done_place) s;
            if fetched_ > 1 then
                c.suspect_place := greatest(c.suspect_place, c.fetched_place);
                c.suspect_rows := greatest(1, fetched_ / 10);
                select s.through_place into c.fetched_place from relaybox.scan_lane(known, c.lane, c.done_place, c.fetched_place, c.suspect_rows) s;
                c.fetch_count := case when c.suspect_rows = 1 then 0 else known.crash_limit - 1 end;
            elsif fetched_ = 1 then
                select s.through_place into first from relaybox.scan_lane(known, c.lane, c.done_place, c.fetched_place, 1) s;
                perform relaybox.set_aside(c, known, first, 'killed_its_worker', format('fetched %s times without a word', c.fetch_count), c.fetch_count, coalesce(c.worker, worker_));
            end if;
        end if;
        if relaybox.set_aside_places(known, c.done_place, c.fetched_place) <> '{}' then
            select s.row_count into fetched_ from relaybox.scan_lane(known, c.lane, c.done_place, c.fetched_place, 1) s;
            if fetched_ = 0 then
                c.done_place := c.fetched_place;
            end if;
        end if;
    end if;
    c.fetch_count := case when c.redrive_place is null and c.fetched_place = c.done_place then 0 else c.fetch_count + 1 end;
    return c;
end
$$;

CREATE FUNCTION relaybox.find_originals(from_position bigint) RETURNS void
    LANGUAGE sql
    SET work_mem TO '64MB'
    SET enable_seqscan TO 'off'
    SET enable_nestloop TO 'off'
    SET enable_mergejoin TO 'off'
    SET enable_hashjoin TO 'on'
    AS $$
    with lay as materialized (
        select w.hop_id, s.sender_id, s.sender, s.epoch, greatest(min(r.first_position), from_position) as first_position, max(r.last_position) as last_position
        from (select distinct d.hop_id, d.sender_id from pg_temp.repeated d where d.original is null) w
        join relaybox.sender_state s on s.sender_id = w.sender_id
        cross join lateral (
            select i.first_index, i.last_index, i.first_position, i.last_position from relaybox.index_range i where i.sender_id = w.sender_id
            union all
            select s.range_first_index, s.range_last_index, s.range_first_position, s.range_last_position where s.range_first_index is not null
            offset 0
        ) r
        where r.last_position >= from_position and (
            select d.index from pg_temp.repeated d
            where d.sender_id = w.sender_id and d.index >= r.first_index and d.index <= r.last_index and d.original is null
            order by d.index limit 1
        ) is not null
        group by w.hop_id, s.sender_id
    ), stretch as materialized (
        select p.hop_id, unnest(range_agg(int8range(p.first_position, p.last_position, '[]'))) as positions from lay p group by p.hop_id
    )
    insert into pg_temp.repeated (hop_id, sender_id, index, original)
    select d.hop_id, d.sender_id, d.index, min(l.position)
    from stretch t
    cross join lateral (
        select m.hop_id, m.position, m.sender, m.epoch, m.index from relaybox.log m
        where m.hop_id = t.hop_id and m.position >= lower(t.positions) and m.position < upper(t.positions)
        offset 0
    ) l
    join lay p on p.hop_id = l.hop_id and p.sender = l.sender and p.epoch = l.epoch
        and p.first_position <= l.position and p.last_position >= l.position
    join pg_temp.repeated d on d.hop_id = p.hop_id and d.sender_id = p.sender_id and d.index = l.index and d.original is null
    where not exists (
        -- what a stream refused is no original, unless its index is done with
        select from relaybox.dead_letter x
        where x.hop_id = d.hop_id and x.position = l.position and x.subscription_id is null
            and not starts_with(x.reason, 'clock_')
        offset 0
    )
    group by d.hop_id, d.sender_id, d.index
    on conflict (sender_id, index) do update set original = excluded.original
$$;

CREATE FUNCTION relaybox.find_repeated_ids(log_id integer, first_position bigint, last_position bigint, within bigint) RETURNS void
    LANGUAGE sql
    SET work_mem TO '64MB'
    AS $$
    insert into pg_temp.id_again ("position", original)
    select l.position, min(o.position)
    from relaybox.log l
    join relaybox.log o on o.hop_id = log_id and o.message_id = l.message_id
        and o.position >= first_position - within and o.position <= last_position
        and o.position < l.position and o.position >= l.position - within
    where l.hop_id = log_id and l.position >= first_position and l.position <= last_position
    group by l.position;
    update pg_temp.batch_sender b set ascending = false, in_order = false
    from relaybox.log l join pg_temp.id_again i on i.position = l.position
    where l.hop_id = log_id and l.sender = b.sender and l.epoch = b.epoch;
$$;

CREATE FUNCTION relaybox.finish_attach(log_id integer, first_ bigint, attempt_ integer, recorded_by text) RETURNS text
    LANGUAGE plpgsql
    AS $$
declare
    wanted relaybox.detached_segment;
    staging text;
    copied record;
begin
    perform relaybox.require_writable_primary();
    perform set_config('synchronous_commit', 'local', true);
    select * into wanted from relaybox.detached_segment d
    where d.hop_id = log_id and d.first = first_ and d.attempt = attempt_ and d.state = 'detached';
    staging := format('%s_attempt_%s', wanted.segment, attempt_);
    if to_regclass('relaybox.' || quote_ident(staging)) is null then
        return 'superseded';
    end if;
    -- nobody writes there from here on
    execute format('lock table relaybox.%I in access exclusive mode', staging);
    select * into copied from relaybox.log_digest(format('relaybox.%I', staging)::regclass, wanted.first, wanted.last);
    if (copied.row_count, copied.hash_sum) <> (wanted.row_count, wanted.hash_sum) then
        raise exception using errcode = 'RB012',
            message = format(
                'log of %s: %s has %s rows with hash sum %s, detached were %s rows with hash sum %s',
                (select i.hop from relaybox.hop_in i where i.hop_id = log_id), wanted.directory, copied.row_count, copied.hash_sum,
                wanted.row_count, wanted.hash_sum
            ),
            hint = 'Its files were changed or removed. Nothing was attached. Bring the files back from a backup, then attach again.';
    end if;
    perform pg_advisory_xact_lock('relaybox.log'::regclass::oid::bigint);
    perform from relaybox.hop_in i where i.hop_id = log_id for update;
    perform from relaybox.stream s where s.stream_id = (select l.stream_id from relaybox.stream_log l where l.hop_id = log_id) for update;
    update relaybox.detached_segment d set state = 'attached', moved_at = clock_timestamp(), moved_by = recorded_by
    where d.hop_id = log_id and d.first = first_ and d.attempt = attempt_ and d.state = 'detached'
        and d.last + 1 = (select i.first_kept_position from relaybox.hop_in i where i.hop_id = log_id);
    if not found then
        return 'superseded';
    end if;
    execute format('alter table relaybox.%I rename to %I', staging, wanted.segment);
    execute format('alter index relaybox.%I rename to %I', staging || '_pkey', wanted.segment || '_pkey');
    execute format(
        'alter table relaybox.log_%s attach partition relaybox.%I for values from (%s) to (%s)', log_id, wanted.segment, wanted.first, wanted.last + 1
    );
    execute format('alter table relaybox.%I drop constraint rows_of_the_segment', wanted.segment);
    update relaybox.hop_in i set first_kept_position = greatest(1, wanted.first) where i.hop_id = log_id;
    update relaybox.stream s set first_kept_place = 1 + greatest(s.dropped_place, (
        select max(relaybox.last_place_through(s.stream_id, d.hop_id, d.last))
        from (
            select n.hop_id, max(n.last) as last
            from relaybox.detached_segment n join relaybox.stream_log l on l.hop_id = n.hop_id
            where l.stream_id = s.stream_id and n.state = 'detached' group by n.hop_id
        ) d
    ))
    where s.stream_id = (select l.stream_id from relaybox.stream_log l where l.hop_id = log_id);
    return 'attached';
end
$$;

CREATE FUNCTION relaybox.first_kept_read(hop_name text) RETURNS bigint
    LANGUAGE sql STABLE
    AS $$
    select coalesce(i.first_kept_position, k.first_kept_seq)
    from relaybox.hop_out h
    cross join relaybox.store k
    left join relaybox.hop_in i on i.hop_id = h.reads_log
    where h.hop = hop_name
$$;

CREATE FUNCTION relaybox.first_position_after(stream_id_ integer, log_id integer, place_ bigint) RETURNS bigint
    LANGUAGE sql STABLE
    AS $$
    select least(
        (
            select min(d.first_position + greatest(0, place_ + 1 - d.first_place)) from relaybox.delivery d
            where d.stream_id = stream_id_ and d.hop_id = log_id and d.positions is null and d.last_place > place_
        ),
        (
            select min(u.at)
            from relaybox.delivery d
            cross join unnest(d.positions[greatest(1, place_ - d.first_place + 2):]) u (at)
            where d.stream_id = stream_id_ and d.hop_id = log_id and d.positions is not null and d.last_place > place_
        )
    )
$$;

CREATE FUNCTION relaybox.has_sender_to_take_up(stream_ integer, origin_ text) RETURNS boolean
    LANGUAGE sql STABLE
    AS $$
    select exists (
        select from relaybox.sender_state s
        join relaybox.stream t using (stream_id)
        where s.stream_id = stream_ and s.origin = origin_ and t.delivery_order = 'causal' and s.stalled_reason = 'holdback_full'
            and (s.watermark > s.stalled_watermark or not exists (select from relaybox.held h where h.sender_id = s.sender_id))
    )
$$;

CREATE FUNCTION relaybox.held_senders(stream_name text) RETURNS TABLE(sender text, epoch integer, origin text, delivered_through bigint, missing jsonb, held_count bigint, first_held_index bigint, held_since timestamp with time zone, stalled_after bigint, stalled_reason text, waiting_count bigint, causes jsonb)
    LANGUAGE sql STABLE
    AS $$
    select
        s.sender, s.epoch, s.origin, s.watermark,
        coalesce((
            select jsonb_agg(jsonb_build_array(lower(r), upper(r) - 1) order by lower(r))
            from unnest(
                int8multirange(int8range(s.watermark + 1, greatest(h.last_index, s.watermark) + 1))
                - coalesce(h.indexes, '{}') - coalesce(w.indexes, '{}') - s.skipped
            ) r
        ), '[]'),
        coalesce(h.held_count, 0), h.first_index, h.since, s.stalled_after, s.stalled_reason, coalesce(w.waiting_count, 0),
        coalesce(c.causes, '[]')
    from relaybox.stream t
    join relaybox.sender_state s on s.stream_id = t.stream_id
    left join lateral (
        select count(*) as held_count, min(o.index) as first_index, max(o.index) as last_index, min(o.held_at) as since,
            range_agg(int8range(o.index, o.index + 1)) as indexes
        from relaybox.held o where o.sender_id = s.sender_id
    ) h on true
    left join lateral (
        select count(*) as waiting_count, range_agg(int8range(l.index, l.index + 1)) as indexes
        from relaybox.stream_log i
        join relaybox.log l on l.hop_id = i.hop_id and l.position > s.stalled_after and l.position <= i.decided_position
        where i.stream_id = s.stream_id and i.origin = s.origin and l.sender = s.sender and l.epoch = s.epoch
    ) w on s.stalled_after is not null
    left join lateral (
        select jsonb_agg(
            jsonb_build_object(
                'sender', g.sender, 'epoch', g.epoch, 'first_index', g.first_index, 'last_index', g.last_index, 'waiting_count', g.waiting_count,
                'delivered_through', g.watermark, 'origin', g.origin
            ) order by g.sender, g.epoch
        ) as causes
        from (
            select u.sender, u.epoch, min(u.index) as first_index, max(u.index) as last_index, count(distinct (o.hop_id, o.position)) as waiting_count,
                min(u.watermark) as watermark, min(u.origin) as origin
            from relaybox.held o
            cross join lateral relaybox.unmet_causes(s.stream_id, o.hop_id, o.position) u
            where o.sender_id = s.sender_id
            group by u.sender, u.epoch
        ) g
    ) c on t.delivery_order = 'causal'
    where t.stream = stream_name and (h.held_count > 0 or s.stalled_after is not null)
    order by least(h.since, s.moved_at), s.sender, s.epoch
$$;

CREATE FUNCTION relaybox.hold_back(known relaybox.subscription, lane_ integer, after_place bigint, bound_place bigint) RETURNS void
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
    AS $$
declare
    blocked text[] := array(
        select distinct d.sender from relaybox.dead_letter d
        where d.subscription_id = known.subscription_id and d.lane = lane_ and d.state in ('open', 'redriving')
    );
    run record;
begin
    if blocked = '{}' then
        return;
    end if;
    for run in
        select d.first_place, d.last_place, d.hop_id, d.first_position, d.positions
        from relaybox.delivery d
        where d.stream_id = known.stream_id and d.last_place > after_place
        order by d.last_place
    loop
        exit when run.first_place > bound_place;
        insert into relaybox.dead_letter (
            stream_id, hop_id, "position", reason, detail, subscription_id, lane, place, sender, attempts, state
        )
        select
            known.stream_id, run.hop_id, l.position, 'waits_behind', 'an earlier message of this sender is a dead letter',
            known.subscription_id, lane_, p.place, l.sender, 0,
            case when exists (
                select from relaybox.dead_letter b
                where b.subscription_id = known.subscription_id and b.lane = lane_ and b.sender = l.sender and b.state = 'open'
            ) then 'open' else 'redriving' end
        from generate_series(greatest(run.first_place, after_place + 1), least(run.last_place, bound_place)) as p (place)
        join relaybox.log l on l.hop_id = run.hop_id
            and l.position = coalesce(run.positions[p.place - run.first_place + 1], run.first_position + p.place - run.first_place)
        where l.sender = any(blocked)
            and (known.topic is null or l.topic = known.topic)
            and (known.lanes = 1 or relaybox.lane_of(known.lane_by, known.lanes, l.sender, l.key) = lane_)
        on conflict (subscription_id, place) do nothing;
    end loop;
end
$$;

CREATE FUNCTION relaybox.holders(log_id integer) RETURNS TABLE(kind text, holder text, needs_from bigint, since timestamp with time zone, policy text, detachable boolean)
    LANGUAGE sql STABLE
    AS $$
    select h.*, false from relaybox.outbox_holders() h where log_id is null and h.needs_from is not null
    union all
    select h.* from relaybox.log_holders(log_id) h where log_id is not null and h.needs_from is not null
$$;

CREATE FUNCTION relaybox.holds_unknown_causes(here relaybox.stream) RETURNS boolean
    LANGUAGE sql STABLE
    AS $$
    select here.delivery_order = 'causal' and exists (
        select from relaybox.held h
        join relaybox.log l on l.hop_id = h.hop_id and l.position = h.position
        cross join relaybox.clock_entries(l.clock) e
        where h.stream_id = here.stream_id
            and h.taken <= (select min(coalesce(i.senders_taken, 0)) from relaybox.stream_log i where i.stream_id = here.stream_id)
            and not exists (
                select from relaybox.sender d
                join relaybox.stream_log i on i.stream_id = here.stream_id and i.origin = d.origin
                where d.sender = e.sender and d.epoch = e.epoch
            )
    )
$$;

CREATE FUNCTION relaybox.hop_has_work(hop_name text) RETURNS boolean
    LANGUAGE sql STABLE
    AS $$
    select coalesce((
        select
            h.batch > coalesce((select c.through_batch from relaybox.newest_confirmation(hop_name, 'received') c), 0)
            or h.undelivered <> '{}'
            or not coalesce((
                select b.pair_exhausted from relaybox.batch b
                where b.hop = h.hop and b.batch = h.batch and b.generation = h.generation
            ), true)
            or case
                when h.reads_log is not null then
                    (select i.published_position from relaybox.hop_in i where i.hop_id = h.reads_log)
                    > coalesce((select b.reads_through from relaybox.batch b where b.hop = h.hop and b.batch = h.batch), 0)
                else exists (
                    select from relaybox.outbox o
                    where o.xid >= pg_snapshot_xmax(h.lower) and o.xid < pg_snapshot_xmax(pg_current_snapshot())
                        and o.topic = any(h.topics) and o.seq + 0 > h.anchor_seq
                ) or exists (
                    select from relaybox.outbox o
                    where o.xid = any(array(select x from pg_snapshot_xip(h.lower) x)) and o.topic = any(h.topics) and o.seq + 0 > h.anchor_seq
                )
            end
        from relaybox.hop_out h
        where h.hop = hop_name and h.retired_at is null
    ), false)
$$;

CREATE FUNCTION relaybox.hop_is_driven(hop_name text) RETURNS boolean
    LANGUAGE sql
    AS $$
    select exists (
        select from pg_stat_activity a
        where a.datname = current_database() and a.application_name = 'relaybox ' || hop_name || ' driver'
    )
$$;

CREATE FUNCTION relaybox.hops_fingerprint(log_id integer) RETURNS text
    LANGUAGE sql STABLE
    AS $$
    select string_agg(
        format('%s %s %s %s %s %s', h.hop, h.generation, h.resend_through, h.undelivered, h.topics, h.replay_window_seconds), ', ' order by h.hop
    )
    from relaybox.hop_out h where h.reads_log is not distinct from log_id and h.retired_at is null
$$;

CREATE FUNCTION relaybox.index_to_wait_for(skipped int8multirange, index bigint) RETURNS bigint
    LANGUAGE sql IMMUTABLE
    AS $$
    select case when skipped @> index then (select lower(r) - 1 from unnest(skipped) r where r @> index) else index end
$$;

CREATE FUNCTION relaybox.is_fetched(c relaybox.cursor, known relaybox.subscription, place_ bigint) RETURNS boolean
    LANGUAGE sql STABLE
    AS $$
    select case when c.redrive_place is null
        then place_ <> all(relaybox.set_aside_places(known, place_ - 1, place_)) and exists (
            select from relaybox.message_at(known.stream_id, place_) m
            where (known.topic is null or m.topic = known.topic)
                and (known.lanes = 1 or relaybox.lane_of(known.lane_by, known.lanes, m.sender, m.key) = c.lane)
        )
        else exists (
            select from relaybox.dead_letter d
            where d.subscription_id = c.subscription_id and d.lane = c.lane and d.state = 'redriving' and d.place = place_
        )
    end
$$;

CREATE FUNCTION relaybox.is_skipped(sender_id_ integer, first_index bigint, before_index bigint) RETURNS boolean
    LANGUAGE sql STABLE
    AS $$
    select first_index >= before_index or coalesce(
        (select s.skipped @> int8range(first_index, before_index) from relaybox.sender_state s where s.sender_id = sender_id_), false
    )
$$;

CREATE FUNCTION relaybox.judge_batch(here relaybox.stream, input relaybox.stream_log, batch_ bigint, first_position bigint, last_position bigint) RETURNS void
    LANGUAGE plpgsql
    AS $$
declare
    reads_from bigint;
begin
    perform relaybox.make_delivery_tables();
    if to_regclass('pg_temp.published_sender') is not null then
        insert into pg_temp.batch_sender (sender, epoch, first_index, last_index, ascending, first_sent_at)
        select p.sender, p.epoch, p.first_index, p.last_index, p.ascending, p.first_sent_at
        from pg_temp.published_sender p where p.hop_id = input.hop_id and p.batch = batch_;
    end if;
    if last_position >= first_position and not exists (select from pg_temp.batch_sender) then
        insert into pg_temp.batch_sender (sender, epoch, first_index, last_index, ascending, first_sent_at)
        select c.sender, c.epoch, c.first_index, c.last_index, c.ascending, c.first_sent_at
        from relaybox.count_senders(input.hop_id, first_position, last_position) c;
    end if;
    perform relaybox.take_up_stalled(here, input, first_position);
    perform relaybox.judge_batch_senders(here, input);
    select coalesce(min(b.reads_after) + 1, first_position) into reads_from from pg_temp.batch_sender b;
    if here.message_id_window > 0 then
        perform relaybox.find_repeated_ids(input.hop_id, reads_from, last_position, here.message_id_window);
    end if;
    with begun as (
        insert into relaybox.sender_state (stream_id, sender, epoch, origin, kind)
        select here.stream_id, b.sender, b.epoch, input.origin, b.kind from pg_temp.batch_sender b
        where b.sender_id is null and b.kind is not null and b.epoch > 0 and not b.of_another_store
        returning sender_id, sender, epoch
    )
    update pg_temp.batch_sender b set sender_id = n.sender_id from begun n where n.sender = b.sender and n.epoch = b.epoch;
    if not here.recheck and not exists (select from pg_temp.batch_sender where not in_order) then
        return;
    end if;
    if here.delivery_order in ('none', 'total') then
        insert into pg_temp.seen_again (sender_id, chunk, indexes)
        select i.sender_id, i.chunk, i.indexes * n.indexes
        from (
            select b.sender_id, l.index >> 12 as chunk, range_agg(int8range(l.index, l.index + 1)) as indexes
            from pg_temp.batch_sender b
            join relaybox.sender_state s on s.sender_id = b.sender_id and s.seen_beyond > 0
            join relaybox.log l on l.hop_id = input.hop_id and l.position >= reads_from and l.position <= last_position
                and l.sender = b.sender and l.epoch = b.epoch
            where not b.in_order and not b.waits
            group by b.sender_id, l.index >> 12
        ) i
        join relaybox.seen n on n.sender_id = i.sender_id and n.chunk = i.chunk and n.indexes && i.indexes;
    end if;
    perform relaybox.judge_rows(here, input, first_position, last_position);
    if here.delivery_order = 'causal' then
        perform relaybox.judge_clocks(here);
    end if;
    perform relaybox.judge_duplicates(first_position);
end
$$;

CREATE FUNCTION relaybox.judge_batch_senders(here relaybox.stream, input relaybox.stream_log) RETURNS void
    LANGUAGE sql
    AS $$
    update pg_temp.batch_sender b set
        sender_id = k.sender_id, kind = coalesce(k.state_kind, k.declared_kind), declared_at = k.declared_at,
        first_declared_at = k.first_declared_at, of_another_store = k.of_another_store, has_begun = k.has_begun,
        watermark = coalesce(k.watermark, 0), given_up = coalesce(k.given_up, '{}'), waits = k.stalled_after is not null,
        in_order = k.stalled_after is null and coalesce(case
            when b.epoch = 0 then k.first_declared_at is null and here.delivery_order <> 'causal'
            when not b.ascending or b.reads_after is not null or k.epochs > 1 or k.of_another_store or here.delivery_order = 'causal' then false
            when not k.has_begun and b.first_sent_at < k.declared_at then false
            when k.sender_id is null then
                k.declared_kind = 'gapless' and not k.has_other_epoch and b.first_index = 1
            else k.state_kind = 'gapless' and k.is_newest and k.held_count = 0 and k.seen_beyond = 0
                and b.first_index = k.watermark + 1 and not k.skipped && int8range(b.first_index, b.last_index, '[]')
        end, false)
    from (
        select
            g.sender, g.epoch, s.sender_id, s.begun_at is not null as has_begun, s.kind as state_kind, s.watermark, s.skipped, u.given_up, s.held_count, s.seen_beyond,
            s.stalled_after, d.kind as declared_kind, d.declared_at,
            (select min(a.declared_at) from relaybox.sender a where a.origin = input.origin and a.sender = g.sender) as first_declared_at,
            exists (
                select from relaybox.sender_state o
                where o.stream_id = here.stream_id and o.sender = g.sender and o.origin <> input.origin
            ) as of_another_store,
            not exists (
                select from relaybox.sender_state o
                where o.stream_id = here.stream_id and o.sender = g.sender and o.epoch > g.epoch
            ) as is_newest,
            exists (
                select from relaybox.sender_state o
                where o.stream_id = here.stream_id and o.sender = g.sender and o.epoch <> g.epoch
            ) as has_other_epoch,
            count(*) filter (where g.epoch > 0) over (partition by g.sender) as epochs
        from pg_temp.batch_sender g
        left join relaybox.sender_state s
            on s.stream_id = here.stream_id and s.sender = g.sender and s.epoch = g.epoch and s.origin = input.origin
        left join (
            select x.sender, x.epoch, range_agg(int8range(x.first_index, x.last_index, '[]')) as given_up
            from relaybox.skip x where x.stream_id = here.stream_id group by x.sender, x.epoch
        ) u on u.sender = g.sender and u.epoch = g.epoch
        left join relaybox.sender d on d.origin = input.origin and d.sender = g.sender and d.epoch = g.epoch
    ) k
    where k.sender = b.sender and k.epoch = b.epoch;
$$;

CREATE FUNCTION relaybox.judge_clocks(here relaybox.stream) RETURNS void
    LANGUAGE plpgsql
    SET work_mem TO '128MB'
    SET jit TO 'off'
    AS $$
declare
    changed bigint;
    rounds integer := 0;
    patience integer := 8;
begin
    -- by the clock and the message's arrival alone, whatever is delivered meanwhile
    update pg_temp.judged j set verdict = d.defect
    from (
        select i.taken, case
            when not relaybox.clock_is_valid(l.clock, s.sender, s.epoch, i.index) then 'clock_invalid'
            when exists (
                select from relaybox.clock_entries(l.clock) e where e.sender <> s.sender and e.index > i.taken + 1000000
            ) then 'clock_too_far'
        end as defect
        from pg_temp.judged i
        join relaybox.log l on l.hop_id = i.hop_id and l.position = i.position
        join relaybox.sender_state s on s.sender_id = i.sender_id
        where i.counts
    ) d
    where j.counts and j.taken = d.taken and d.defect is not null;
    insert into pg_temp.cause (taken, sender_id, index, fenced_at)
    with begun as materialized (
        select s.sender, s.epoch, min(j.taken) as taken
        from pg_temp.judged j join relaybox.sender_state s on s.sender_id = j.sender_id
        where j.counts and s.begun_at is null group by s.sender, s.epoch
    )
    -- of an epoch that ended without a message nothing is known but its end
    select c.taken, c.sender_id, c.index, coalesce(f.fenced_at, case when c.sender_id is null then (
        select min(b.taken) from begun b where b.sender = c.sender and b.epoch > c.epoch
    ) end)
    from (
        select n.taken, n.sender, n.epoch, s.sender_id, s.watermark, relaybox.index_to_wait_for(s.skipped, n.index) as index
        from (
            select j.taken, e.sender, e.epoch, e.index
            from pg_temp.judged j
            join relaybox.log l on l.hop_id = j.hop_id and l.position = j.position
            join relaybox.sender_state me on me.sender_id = j.sender_id
            cross join relaybox.clock_entries(l.clock) e
            where j.counts and j.verdict is null and e.sender <> me.sender
        ) n
        left join relaybox.sender_state s on s.stream_id = here.stream_id and s.sender = n.sender and s.epoch = n.epoch
    ) c
    left join pg_temp.fence f on f.sender_id = c.sender_id
    where (c.watermark >= c.index) is not true
        and not exists (
            select from relaybox.sender_state n
            where n.stream_id = here.stream_id and n.sender = c.sender and n.epoch > c.epoch and n.begun_at is not null
        );
    update pg_temp.judged j set verdict = 'clock_names_unknown_sender'
    from relaybox.held h
    where j.counts and j.verdict is null and not j.is_new and h.hop_id = j.hop_id and h.position = j.position
        and h.taken <= (select min(coalesce(i.senders_taken, 0)) from relaybox.stream_log i where i.stream_id = here.stream_id)
        and exists (
            select from relaybox.log l cross join relaybox.clock_entries(l.clock) e
            where l.hop_id = j.hop_id and l.position = j.position and not exists (
                select from relaybox.sender d
                join relaybox.stream_log i on i.stream_id = here.stream_id and i.origin = d.origin
                where d.sender = e.sender and d.epoch = e.epoch
            )
        );
    delete from pg_temp.cause c using pg_temp.judged j where j.taken = c.taken and j.verdict is not null;
    perform relaybox.rank_by_clocks();
    loop
        -- t: as late as the latest cause and the sender's own earlier messages
        with bounds as (
            select j.taken, max(least(d.t, c.fenced_at)) as t, bool_or(least(d.t, c.fenced_at) is null) as blocked
            from pg_temp.judged j
            join pg_temp.cause c on c.taken = j.taken
            left join pg_temp.judged d on d.counts and d.sender_id = c.sender_id and d.index = c.index
            group by j.taken
        ), own as (
            select j.taken,
                bool_or(j.t is null or coalesce(b.blocked, false)) over earlier as blocked,
                max(greatest(j.t, b.t)) over earlier as t
            from pg_temp.judged j left join bounds b on b.taken = j.taken
            where j.counts
            window earlier as (partition by j.sender_id order by j.index)
        )
        update pg_temp.judged j set t = n.t
        from (
            select o.taken, case when o.blocked then f.fenced_at else least(o.t, f.fenced_at) end as t
            from own o join pg_temp.judged k on k.counts and k.taken = o.taken left join pg_temp.fence f on f.sender_id = k.sender_id
        ) n
        where j.counts and j.taken = n.taken and j.t is distinct from n.t;
        get diagnostics changed = row_count;
        exit when changed = 0;
    end loop;
    loop
        -- ordinal: after all that it waits for and that is let through at the same moment; what was set aside hands on what is before it
        update pg_temp.judged j set ordinal = n.after + (j.verdict is null)::integer
        from (select w.taken, max(w.after) as after from relaybox.waits_at_once() w group by w.taken) n
        where j.counts and j.taken = n.taken and j.ordinal < n.after + (j.verdict is null)::integer;
        get diagnostics changed = row_count;
        exit when changed = 0;
        rounds := rounds + 1;
        -- a chain has an end, a circle has none
        if rounds = patience then
            patience := patience * 2;
            if relaybox.set_aside_circles() then
                perform relaybox.rank_by_clocks();
            end if;
        end if;
    end loop;
end
$$;

CREATE FUNCTION relaybox.judge_duplicates(first_position bigint) RETURNS void
    LANGUAGE plpgsql
    SET work_mem TO '64MB'
    SET enable_seqscan TO 'off'
    SET enable_nestloop TO 'off'
    SET enable_mergejoin TO 'off'
    SET enable_hashjoin TO 'on'
    AS $$
begin
    if exists (select from pg_temp.judged where verdict = 'duplicate' and original is null) then
        insert into pg_temp.repeated (hop_id, sender_id, index)
        select distinct j.hop_id, j.sender_id, j.index from pg_temp.judged j where j.verdict = 'duplicate' and j.original is null;
        -- most copies come soon after their original: the whole log is looked through for the others only
        perform relaybox.find_originals(first_position - 20000);
        if exists (select from pg_temp.repeated where original is null) then
            perform relaybox.find_originals(1);
        end if;
        update pg_temp.judged j set original = o.original
        from pg_temp.repeated o
        where o.sender_id = j.sender_id and o.index = j.index and o.original <> j.position
            and j.verdict = 'duplicate' and j.original is null;
    end if;
    -- two lookups per duplicate
    with other as materialized (
        select d.taken
        from pg_temp.judged d
        cross join lateral (select m.* from relaybox.log m where m.hop_id = d.hop_id and m.position = d.position offset 0) l
        cross join lateral (select m.* from relaybox.log m where m.hop_id = d.hop_id and m.position = d.original offset 0) o
        where d.verdict = 'duplicate'
            and (l.topic, l.key, l.payload, l.payload_bytes) is distinct from (o.topic, o.key, o.payload, o.payload_bytes)
    )
    update pg_temp.judged j set verdict = 'other_content' where j.taken in (select o.taken from other o) and j.verdict = 'duplicate';
end
$$;

CREATE FUNCTION relaybox.judge_rows(here relaybox.stream, input relaybox.stream_log, first_position bigint, last_position bigint) RETURNS void
    LANGUAGE plpgsql
    SET work_mem TO '256MB'
    SET enable_nestloop TO 'off'
    SET enable_mergejoin TO 'off'
    SET jit TO 'off'
    AS $$
declare
    waits_for_earlier boolean := here.delivery_order in ('fifo', 'causal');
    shift bigint := here.taken - first_position + 1;
    has_ids boolean := exists (select from pg_temp.id_again);
    has_seen boolean := exists (select from pg_temp.seen_again);
    has_skips boolean := exists (select from relaybox.sender_state s where s.stream_id = here.stream_id and s.skipped <> '{}');
    has_stalled boolean := exists (select from pg_temp.batch_sender where reads_after is not null);
    has_fences boolean;
begin
    -- from its first acceptable message on, a higher epoch fences the lower ones
    if exists (
        select from pg_temp.batch_sender b join relaybox.sender_state s on s.stream_id = here.stream_id and s.sender = b.sender
        where b.epoch > 0 and not b.in_order and (s.epoch <> b.epoch)
    ) then
        insert into pg_temp.fence (sender_id, fenced_at)
        select low.sender_id, min(high.begins)
        from relaybox.sender_state low
        join (
            select s.sender, s.epoch, coalesce(s.begun_at, (
                select shift + min(l.position)
                from relaybox.log l
                join pg_temp.batch_sender b on b.sender = l.sender and b.epoch = l.epoch
                where l.hop_id = input.hop_id and l.position >= first_position and l.position <= last_position
                    and l.sender = s.sender and l.epoch = s.epoch and l.sent_at >= b.declared_at and not b.of_another_store
                    and not (b.kind = 'sparse' and waits_for_earlier)
                    and not (b.kind = 'gapless' and l.index > greatest(l.position, upper(b.given_up) - 1) + 1000000)
                    and not (b.kind = 'gapless' and b.given_up @> l.index)
            )) as begins
            from relaybox.sender_state s
            where s.stream_id = here.stream_id and exists (select from pg_temp.batch_sender b where b.sender = s.sender and not b.in_order)
        ) high on high.sender = low.sender and high.epoch > low.epoch and high.begins is not null
        where low.stream_id = here.stream_id and exists (select from pg_temp.batch_sender b where b.sender = low.sender)
        group by low.sender_id;
    end if;
    has_fences := exists (select from pg_temp.fence);
    insert into pg_temp.judged (taken, hop_id, "position", sender_id, epoch, index, is_new, verdict, original, counts, t, ordinal)
    select
        c.taken, c.hop_id, c.position, c.sender_id, c.epoch, c.index, c.is_new,
        case when c.chain is null then c.verdict when c.is_given_up then 'index_skipped' when c.is_again then 'duplicate' end,
        case when c.chain is null then c.original when not c.is_past then c.first_of_index end,
        c.chain is not null and not c.is_again and not c.is_given_up,
        case
            when c.chain is null then case when c.verdict is null then c.taken end
            when c.is_again or c.is_given_up then null
            when not waits_for_earlier then c.taken
            when has_fences then least(
                case when c.chain_whole then c.chain_taken end, (select f.fenced_at from pg_temp.fence f where f.sender_id = c.sender_id)
            )
            when c.chain_whole then c.chain_taken
        end,
        case when waits_for_earlier then c.index end
    from (
        select d.*,
            max(case when not d.is_again then d.taken end) over earlier as chain_taken,
            bool_and(
                -- what comes again says nothing of what is missing before it
                d.index <= greatest(d.previous_index, d.watermark) + 1
                or has_skips and relaybox.is_skipped(d.chain, greatest(d.previous_index, d.watermark) + 1, d.index)
            ) over earlier as chain_whole
        from (
            select e.*,
                e.is_past or e.chain is not null and coalesce(e.previous_index = e.index, false) as is_again
            from (
                select r.*,
                    r.chain is not null and (
                        r.index <= r.watermark
                        or has_seen and exists (
                            select from pg_temp.seen_again a where a.sender_id = r.chain and a.chunk = r.index >> 12 and a.indexes @> r.index
                        )
                        -- beyond the watermark nothing is given up: it was set aside before its turn
                        or has_skips and r.is_new and relaybox.is_skipped(r.chain, r.index, r.index + 1)
                    ) as is_past,
                    lag(r.index) over (partition by r.chain order by r.index, r.taken) as previous_index,
                    first_value(r.position) over (partition by r.chain, r.index order by r.taken) as first_of_index
                from (
                    select q.*, case when q.verdict is null and q.epoch > 0 then q.sender_id end as chain
                    from (
                        select
                            shift + l.position as taken, l.hop_id, l.position, b.sender_id, l.epoch, l.index, true as is_new, b.watermark,
                            b.given_up @> l.index as is_given_up,
                            case when has_ids then (select i.original from pg_temp.id_again i where i.position = l.position) end as original,
                            case
                                when has_ids and exists (select from pg_temp.id_again i where i.position = l.position) then 'duplicate'
                                when b.epoch = 0 and b.first_declared_at <= l.sent_at then 'index_missing'
                                when b.epoch = 0 then case when here.delivery_order = 'causal' then 'sender_not_gapless' end
                                when coalesce(b.first_declared_at > l.sent_at, true) then 'sender_not_declared'
                                when coalesce(b.declared_at > l.sent_at, true) then 'epoch_not_begun'
                                when b.of_another_store then 'sender_of_another_store'
                                when has_fences and shift + l.position > (select f.fenced_at from pg_temp.fence f where f.sender_id = b.sender_id)
                                    then 'epoch_fenced'
                                when b.kind = 'sparse' and waits_for_earlier then 'sender_not_gapless'
                                when b.kind = 'gapless' and l.index > greatest(l.position, coalesce(upper(b.given_up) - 1, 0)) + 1000000
                                    then 'index_too_far'
                            end as verdict
                        from relaybox.log l
                        join pg_temp.batch_sender b on b.sender = l.sender and b.epoch = l.epoch
                        where l.hop_id = input.hop_id and l.position >= first_position and l.position <= last_position
                            and not b.in_order and not b.waits
                        union all
                        select
                            k.first_taken + l.position - a.first_position, l.hop_id, l.position, b.sender_id, l.epoch, l.index, true, b.watermark, b.given_up @> l.index,
                            (select i.original from pg_temp.id_again i where i.position = l.position),
                            case
                                when exists (select from pg_temp.id_again i where i.position = l.position) then 'duplicate'
                                when coalesce(b.declared_at > l.sent_at, true) then 'epoch_not_begun'
                                when k.first_taken + l.position - a.first_position
                                    > (select f.fenced_at from pg_temp.fence f where f.sender_id = b.sender_id) then 'epoch_fenced'
                                when b.kind = 'gapless' and l.index > greatest(l.position, coalesce(upper(b.given_up) - 1, 0)) + 1000000
                                    then 'index_too_far'
                            end
                        from pg_temp.batch_sender b
                        join relaybox.log l on l.hop_id = input.hop_id and l.position > b.reads_after and l.position < first_position
                            and l.sender = b.sender and l.epoch = b.epoch
                        join relaybox.arrival a on a.hop_id = input.hop_id and a.first_position <= l.position and a.last_position >= l.position
                        join relaybox.decision k on k.hop_id = input.hop_id and k.batch = a.batch
                        where has_stalled and b.reads_after is not null
                        union all
                        select h.taken, h.hop_id, h.position, h.sender_id, s.epoch, h.index, false, s.watermark, false, null, null
                        from relaybox.held h
                        join relaybox.sender_state s on s.sender_id = h.sender_id
                        where h.stream_id = here.stream_id and (
                            here.delivery_order = 'causal' or here.recheck
                            or exists (select from pg_temp.fence f where f.sender_id = h.sender_id)
                            or exists (select from pg_temp.batch_sender b where b.sender_id = h.sender_id and not b.in_order)
                        )
                    ) q
                ) r
            ) e
        ) d
        window earlier as (partition by d.chain order by d.index, d.taken)
    ) c;
end
$$;

CREATE FUNCTION relaybox.lag(subscription text) RETURNS TABLE(lane integer, done_place bigint, fetched_place bigint, last_place bigint, places_behind bigint, waiting_since timestamp with time zone, worker text, leased_until timestamp with time zone, replaying boolean, failing integer, dead_letters integer)
    LANGUAGE plpgsql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'relaybox', 'pg_temp'
    AS $$
declare
    known relaybox.subscription := relaybox.subscription_named(lag.subscription);
begin
    return query
    select
        c.lane, c.done_place, c.fetched_place, reach.last_place, reach.last_place - c.done_place,
        (
            select min(first.decided_at)
            from relaybox.stream_log g
            join lateral (
                select k.decided_at from relaybox.decision k
                where k.hop_id = g.hop_id and k.last_place > c.done_place
                order by k.last_place
                limit 1
            ) first on true
            where g.stream_id = known.stream_id and reach.last_place > c.done_place
        ),
        c.worker, c.leased_until, c.done_place < c.replay_place,
        (
            select count(*)::integer from relaybox.failed_attempt f
            where f.subscription_id = known.subscription_id and f.lane = c.lane
        ),
        (
            select count(*)::integer from relaybox.dead_letter d
            where d.subscription_id = known.subscription_id and d.lane = c.lane and d.state in ('open', 'redriving')
        )
    from relaybox.lane_cursors c
    cross join lateral (
        select greatest(c.done_place, least(known.through_place, s.last_place)) as last_place
        from relaybox.stream s where s.stream_id = known.stream_id
    ) reach
    where c.subscription_id = known.subscription_id
    order by c.lane;
end
$$;

CREATE FUNCTION relaybox.lane_of(lane_by text, lanes integer, sender text, key text) RETURNS integer
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $$
    select 1 + ((hashtextextended(case when lane_by = 'key' then coalesce(key, sender) else sender end, 0) & 9223372036854775807) % lanes)::integer
$$;

CREATE FUNCTION relaybox.lanes_for(known relaybox.subscription, worker_ text) RETURNS TABLE(lane integer)
    LANGUAGE sql
    AS $$
    select c.lane
    from relaybox.lane_cursors c
    where c.subscription_id = known.subscription_id and (c.worker is null or c.worker = worker_ or c.leased_until <= clock_timestamp())
    order by c.worker is distinct from worker_, c.moved_at
$$;

CREATE FUNCTION relaybox.last_place_through(stream_id_ integer, log_id integer, through_position bigint) RETURNS bigint
    LANGUAGE sql STABLE
    AS $$
    select greatest(
        0,
        (
            select max(least(d.last_place, d.first_place + through_position - d.first_position)) from relaybox.delivery d
            where d.stream_id = stream_id_ and d.hop_id = log_id and d.positions is null and d.first_position <= through_position
        ),
        (
            select max(d.first_place + u.n - 1)
            from relaybox.delivery d
            cross join unnest(d.positions) with ordinality u (at, n)
            where d.stream_id = stream_id_ and d.hop_id = log_id and d.positions is not null and u.at <= through_position
        )
    )
$$;

CREATE FUNCTION relaybox.lock_hop(hop_name text) RETURNS TABLE(reads_log integer, topics text[], batch bigint, "position" bigint, lower pg_snapshot, attempt bigint, received_batch bigint, generation integer, anchor_seq bigint, undelivered int8multirange, resend_through bigint, system_identifier bigint, timeline integer, next_xid xid8)
    LANGUAGE plpgsql
    AS $$
declare
    known relaybox.hop_out;
    here record;
begin
    perform relaybox.require_writable_primary();
    if pg_current_xact_id_if_assigned() is not null or current_setting('transaction_isolation') <> 'read committed' then
        raise exception using errcode = 'RB002',
            message = 'planning needs a fresh READ COMMITTED transaction: a snapshot taken after a write counts the own rows as visible';
    end if;
    set local synchronous_commit = on;
    select * into known from relaybox.hop_out h where h.hop = hop_name for update;
    if not found then
        raise exception using errcode = 'RB004',
            message = format('hop %s does not leave this store', hop_name), hint = 'Run: relaybox init';
    end if;
    perform relaybox.refuse_retired_hop(known);
    select * into here from relaybox.cluster_fingerprint();
    if (here.system_identifier, here.timeline) <> (known.system_identifier, known.timeline)
        or here.next_xid < coalesce(pg_snapshot_xmax(known.lower), '3'::xid8)
    then
        raise exception using errcode = 'RB011',
            message = format(
                'hop %s: its ledger was written by cluster %s on timeline %s with transactions below %s; this is cluster %s on timeline %s with next transaction %s',
                hop_name, known.system_identifier, known.timeline, coalesce(pg_snapshot_xmax(known.lower), '3'::xid8),
                here.system_identifier, here.timeline, here.next_xid
            ),
            hint = format(
                'The source was restored, promoted or replaced. Nothing was moved. If it lost nothing: relaybox attest %s. Else: relaybox reanchor %s',
                (select s.store from relaybox.store s), hop_name
            );
    end if;
    return query
    select
        known.reads_log, known.topics, known.batch, known.position, known.lower, known.attempt,
        coalesce((select c.through_batch from relaybox.newest_confirmation(hop_name, 'received') c), 0),
        known.generation, known.anchor_seq, known.undelivered, known.resend_through,
        here.system_identifier, here.timeline, here.next_xid;
end
$$;

CREATE FUNCTION relaybox.lock_lane(known relaybox.subscription, lane_ integer) RETURNS relaybox.cursor
    LANGUAGE plpgsql
    AS $$
declare
    newest relaybox.cursor;
begin
    perform from relaybox.lane l where l.subscription_id = known.subscription_id and l.lane = lane_ for update;
    if not found then
        raise exception using errcode = 'RB036',
            message = format('subscription %s has lanes 1 to %s, no lane %s', known.subscription, known.lanes, lane_);
    end if;
    -- a later statement than the lock: it sees what was committed before the lock came free
    select * into newest from relaybox.lane_cursors c where c.subscription_id = known.subscription_id and c.lane = lane_;
    return newest;
end
$$;

CREATE FUNCTION relaybox.log_digest(table_ regclass, first bigint, last bigint, OUT row_count bigint, OUT hash_sum numeric) RETURNS record
    LANGUAGE plpgsql STABLE
    SET enable_seqscan TO 'on'
    AS $_$
begin
    execute format(
        $query$
        select count(*), coalesce(sum(('x' || left(md5(record_send(row(
            l.position, l.index, l.epoch, l.message_id, l.sent_at, l.topic, l.sender, l.key, l.headers, l.payload, l.payload_bytes, l.clock
        ))), 16))::bit(64)::bigint), 0)
        from %s l where l.position between $1 and $2
        $query$,
        table_
    )
    into row_count, hash_sum using first, last;
end
$_$;

CREATE FUNCTION relaybox.log_holders(log_id integer) RETURNS TABLE(kind text, holder text, needs_from bigint, since timestamp with time zone, policy text, detachable boolean)
    LANGUAGE sql STABLE
    AS $$
    with here as (
        select i.*, s.stream_id, s.stream, s.last_place, s.message_id_window, l.origin, l.decided_position, l.decided_batch
        from relaybox.hop_in i
        left join relaybox.stream_log l on l.hop_id = i.hop_id
        left join relaybox.stream s on s.stream_id = l.stream_id
        where i.hop_id = log_id
    ), waiting as (
        select e.sender, e.stalled_after + 1 as needs_from, e.moved_at
        from here h join relaybox.sender_state e on e.stream_id = h.stream_id and e.origin = h.origin and e.stalled_after is not null
    ), replayable as (
        -- all logs of a stream are kept as long as the one that is kept longest: their places are one sequence
        select case when bool_or(i.replay_window_seconds is null) then null else max(i.replay_window_seconds) end as seconds
        from here h join relaybox.stream_log l on l.stream_id = h.stream_id join relaybox.hop_in i on i.hop_id = l.hop_id
    ), detaching as (
        select h.detach_after_seconds as after_seconds, (
            select max(d.moved_at) from relaybox.stream_log l join relaybox.detached_segment d on d.hop_id = l.hop_id
            where l.stream_id = h.stream_id and d.state = 'attached'
        ) as attached_at
        from here h where h.stopped_consumer = 'detach'
    ), behind as (
        select
            n.subscription, stands.has_stopped, relaybox.first_position_after(h.stream_id, log_id, min(c.done_place)) as needs_from,
            (
                select min(k.decided_at) from relaybox.stream_log g join relaybox.decision k on k.hop_id = g.hop_id
                where g.stream_id = h.stream_id and k.last_place > min(c.done_place)
            ) as since
        from here h
        join relaybox.subscription n on n.stream_id = h.stream_id and n.ended_at is null
        join relaybox.lane_cursors c on c.subscription_id = n.subscription_id
        cross join lateral (
            select exists (
                select from detaching a where greatest(c.moved_at, c.leased_until, a.attached_at, (
                    select min(f.decided_at)
                    from relaybox.stream_log g
                    join lateral (
                        select e.decided_at from relaybox.decision e where e.hop_id = g.hop_id and e.last_place > c.done_place
                        order by e.last_place limit 1
                    ) f on true
                    where g.stream_id = h.stream_id
                )) < now() - make_interval(secs => a.after_seconds)
            ) as has_stopped
        ) stands
        -- a second cursor that came to its end needs nothing more
        where (c.done_place >= n.through_place) is not true
        group by n.subscription_id, n.subscription, h.stream_id, stands.has_stopped
    )
    select 'newest', h.hop, least(h.published_position, relaybox.first_position_after(h.stream_id, log_id, h.last_place - 1)), null::timestamptz, null::text, false
    from here h
    union all
    select 'undecided', h.hop, coalesce(h.decided_position, 0) + 1,
        (select a.published_at from relaybox.arrival a where a.hop_id = h.hop_id and a.batch > coalesce(h.decided_batch, 0) order by a.batch limit 1),
        null, false
    from here h where h.decided_position is distinct from h.published_position
    union all
    (
        select 'held', e.sender, d.position, d.held_at, null, false
        from here h join relaybox.held d on d.hop_id = h.hop_id join relaybox.sender_state e on e.sender_id = d.sender_id
        order by d.position limit 1
    )
    union all
    (select 'stalled', w.sender, w.needs_from, w.moved_at, null, false from waiting w order by w.needs_from limit 1)
    union all
    select 'hop', o.hop, coalesce(r.through_position, 0) + 1,
        (select a.published_at from relaybox.arrival a where a.hop_id = log_id and a.last_position > coalesce(r.through_position, 0) order by a.batch limit 1),
        o.stopped_consumer, false
    from here h
    join relaybox.hop_out o on o.reads_log = h.hop_id and o.retired_at is null
    cross join lateral relaybox.settled_reading(o.hop) r
    where coalesce(r.through_position, 0) < h.published_position
    union all
    select 'subscription', b.subscription, b.needs_from, b.since, h.stopped_consumer, b.has_stopped from behind b cross join here h where b.needs_from is not null
    union all
    (
        select 'dead letter', format('letter %s', d.dead_letter_id), d.position, d.first_at, null, false
        from relaybox.dead_letter d where d.hop_id = log_id and d.state in ('open', 'redriving') order by d.position limit 1
    )
    union all
    select 'window', h.hop,
        case
            when r.seconds is null then 0
            else least(
                relaybox.first_position_after(h.stream_id, log_id, (
                    select coalesce(max(k.last_place), 0) from relaybox.stream_log g join relaybox.decision k on k.hop_id = g.hop_id
                    where g.stream_id = h.stream_id and k.decided_at <= now() - make_interval(secs => r.seconds)
                )),
                (
                    select min(a.first_position) from relaybox.arrival a
                    where a.hop_id = log_id and a.published_at > now() - make_interval(secs => r.seconds)
                )
            )
        end, null, null, false
    from here h cross join replayable r
    union all
    select 'deduplication', h.stream,
        least(h.decided_position + 1, (select min(w.needs_from) from waiting w)) - h.message_id_window, null, null, false
    from here h where h.message_id_window > 0
$$;

CREATE FUNCTION relaybox.log_kept_from(log_id integer) RETURNS bigint
    LANGUAGE sql STABLE
    AS $$
    select least(i.first_kept_position, (
        select min(d.first) from relaybox.detached_segment d where d.hop_id = log_id and d.state = 'detached'
    ))
    from relaybox.hop_in i where i.hop_id = log_id
$$;

CREATE FUNCTION relaybox.make_delivery_tables() RETURNS void
    LANGUAGE plpgsql
    AS $$
declare
    name text;
begin
    if to_regclass('pg_temp.batch_sender') is null then
        -- a sender and epoch of the batch. in_order: nothing to decide; waits: stalled, stays in its log;
        -- given_up: indexes that an operator skipped
        create temporary table batch_sender (
            sender text, epoch integer, first_index bigint, last_index bigint, ascending boolean, first_sent_at timestamptz,
            sender_id integer, kind text, declared_at timestamptz, first_declared_at timestamptz, of_another_store boolean, has_begun boolean,
            watermark bigint, given_up int8multirange, reads_after bigint, in_order boolean, waits boolean,
            primary key (sender, epoch)
        );
        -- a message that is looked at one by one. t: the arrival number at which it may be delivered, null: not yet;
        -- ordinal: its order among those of the same t; counts: its index is done with, delivered or not
        create temporary table judged (
            taken bigint, hop_id integer, "position" bigint, sender_id integer, epoch integer, index bigint, is_new boolean,
            verdict text, original bigint, counts boolean, t bigint, ordinal bigint
        );
        create temporary table fence (sender_id integer primary key, fenced_at bigint);
        create temporary table id_again ("position" bigint primary key, original bigint);
        create temporary table seen_again (
            sender_id integer, chunk bigint, indexes int8multirange, primary key (sender_id, chunk)
        );
        -- an index that came again; original: where it came first
        create temporary table repeated (
            hop_id integer, sender_id integer, index bigint, original bigint, primary key (sender_id, index)
        );
        -- what a clock asks for that is not delivered yet; sender_id null: of a sender that is not known here
        create temporary table cause (taken bigint, sender_id integer, index bigint, fenced_at bigint);
        -- of two judged messages the one that follows the other; empty but while a circle is looked for
        create temporary table wait (taken bigint, for_taken bigint, by_clock boolean);
        create temporary table circle (taken bigint primary key, reaches bigint);
        -- a sender whose accepted indexes leave no gap behind
        create temporary table remembered (sender_id integer primary key);
    else
        for name in
            select t from unnest(array['remembered', 'repeated', 'batch_sender', 'judged', 'fence', 'id_again', 'seen_again', 'cause']) t
            where pg_relation_size(('pg_temp.' || t)::regclass) > 0
        loop
            if pg_relation_size(('pg_temp.' || name)::regclass) > 131072 then
                execute format('truncate pg_temp.%I', name);
            else
                execute format('delete from pg_temp.%I', name);
            end if;
        end loop;
    end if;
end
$$;

CREATE FUNCTION relaybox.make_published_sender() RETURNS void
    LANGUAGE plpgsql
    AS $$
begin
    if to_regclass('pg_temp.published_sender') is null then
        create temporary table published_sender (
            hop_id integer, batch bigint, sender text, epoch integer, row_count bigint, first_index bigint, last_index bigint,
            ascending boolean, first_sent_at timestamptz
        ) on commit preserve rows;
    else
        truncate pg_temp.published_sender;
    end if;
end
$$;

CREATE FUNCTION relaybox.message_at(stream_id_ integer, place_ bigint) RETURNS TABLE(hop_id integer, "position" bigint, topic text, sender text, key text)
    LANGUAGE sql STABLE
    SET enable_seqscan TO 'off'
    AS $$
    select l.hop_id, l.position, l.topic, l.sender, l.key
    from (
        select d.hop_id, coalesce(d.positions[place_ - d.first_place + 1], d.first_position + place_ - d.first_place) as position
        from relaybox.delivery d
        where d.stream_id = stream_id_ and d.last_place >= place_
        order by d.last_place
        limit 1
    ) at
    join relaybox.log l on l.hop_id = at.hop_id and l.position = at.position
$$;

CREATE FUNCTION relaybox.message_hash(message_id uuid, topic text, sender text, epoch integer, index bigint, key text, payload text, payload_bytes bytea, headers jsonb, clock jsonb, sent_at timestamp with time zone) RETURNS text
    LANGUAGE sql STABLE
    AS $$
    select md5(record_send(row(message_id, topic, sender, epoch, index, key, payload, payload_bytes, headers, clock, sent_at)))
$$;

CREATE FUNCTION relaybox.move_cursor(moved relaybox.cursor) RETURNS void
    LANGUAGE plpgsql
    AS $$
begin
    moved.version := moved.version + 1;
    moved.moved_at := clock_timestamp();
    insert into relaybox.cursor select moved.* on conflict do nothing;
    if not found then
        raise exception using errcode = '40001',
            message = format('lane %s was moved by another transaction after this one began', moved.lane),
            hint = 'Fetch again in a new transaction.';
    end if;
    if moved.version % 100 = 0 then
        delete from relaybox.cursor c
        where c.subscription_id = moved.subscription_id and c.lane = moved.lane and c.version < moved.version;
    end if;
end
$$;

CREATE FUNCTION relaybox.nack(subscription text, place bigint, reason text, lane integer DEFAULT 1, worker text DEFAULT NULL::text) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'relaybox', 'pg_temp'
    AS $$
declare
    known relaybox.subscription := relaybox.subscription_named(nack.subscription);
    worker_ text := relaybox.worker_name(nack.worker);
    c relaybox.cursor := relaybox.lock_lane(known, nack.lane);
    attempts_ integer;
    stream relaybox.stream;
    is_set_aside boolean;
begin
    perform relaybox.require_reason(reason, 'a message is refused', 'nack(subscription, place, ''why'')');
    perform relaybox.require_fetched(c, known, nack.place, worker_);
    select s.* into stream from relaybox.stream s where s.stream_id = known.stream_id;
    perform relaybox.refuse_detached(stream, nack.place, format('subscription %s, lane %s', known.subscription, c.lane));
    if not relaybox.is_fetched(c, known, nack.place) then
        raise exception using errcode = 'RB033',
            message = format('subscription %s, lane %s: place %s is no message of this lane, or is set aside', known.subscription, c.lane, nack.place),
            hint = 'Give the place and the lane of a message as fetch gave them.';
    end if;
    insert into relaybox.failed_attempt as f (subscription_id, lane, place, attempts, last_by, reason)
    values (known.subscription_id, c.lane, nack.place, 1, worker_, nack.reason)
    on conflict on constraint failed_attempt_pkey do update
    set attempts = f.attempts + 1, last_at = clock_timestamp(), last_by = excluded.last_by, reason = excluded.reason
    returning f.attempts into attempts_;
    is_set_aside := attempts_ >= known.nack_limit;
    if is_set_aside then
        perform relaybox.set_aside(c, known, nack.place, 'refused', nack.reason, attempts_, worker_);
    else
        c.wait_until := clock_timestamp() + make_interval(secs => known.retry_seconds);
    end if;
    c.worker := null;
    c.leased_until := null;
    c.fetch_count := 0;
    perform relaybox.move_cursor(c);
    return is_set_aside;
end
$$;

CREATE FUNCTION relaybox.new_epoch(sender text, kind text DEFAULT NULL::text) RETURNS integer
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'relaybox', 'pg_temp'
    AS $$
declare
    origin_here text := (select s.store from relaybox.store s);
    counter_epoch integer;
    declared relaybox.sender;
begin
    set local synchronous_commit = on;
    perform relaybox.require_sender_role(new_epoch.sender);
    if new_epoch.kind is not null then
        perform relaybox.require_sender_kind(new_epoch.sender, new_epoch.kind);
    end if;
    select c.epoch into counter_epoch from relaybox.sender_counter c where c.sender = new_epoch.sender for update;
    if not found then
        raise exception using errcode = 'RB022',
            message = format('sender %s is not declared in this store', new_epoch.sender),
            hint = format('Declare it: select relaybox.declare_sender(%L, ''gapless'')', new_epoch.sender);
    end if;
    -- a later statement than the lock: it sees what the one before us committed
    select s.* into declared from relaybox.sender s
    where s.origin = origin_here and s.sender = new_epoch.sender
    order by s.epoch desc
    limit 1;
    insert into relaybox.sender (origin, sender, epoch, kind)
    values (origin_here, new_epoch.sender, counter_epoch + 1, coalesce(new_epoch.kind, declared.kind));
    update relaybox.sender_counter c set epoch = counter_epoch + 1, last_index = 0 where c.sender = new_epoch.sender;
    return counter_epoch + 1;
end
$$;

CREATE FUNCTION relaybox.new_message_id() RETURNS uuid
    LANGUAGE sql
    RETURN uuidv7();

CREATE FUNCTION relaybox.newest_confirmation(hop_name text, state_ text) RETURNS TABLE(through_batch bigint, through_position bigint, happened_at timestamp with time zone, recorded_at timestamp with time zone)
    LANGUAGE sql STABLE
    AS $$
    select c.through_batch, c.through_position, c.happened_at, c.recorded_at
    from relaybox.confirmation c
    where c.hop = hop_name and c.state = state_
    order by c.through_position desc
    limit 1
$$;

CREATE FUNCTION relaybox.next_fetch(c relaybox.cursor, known relaybox.subscription, max_count bigint, worker_ text) RETURNS relaybox.cursor
    LANGUAGE plpgsql
    AS $$
declare
    at timestamptz := clock_timestamp();
    stream relaybox.stream;
    bound bigint;
    window_bound bigint;
    wanted bigint;
    scan record;
    saved numeric;
begin
    if c.wait_until > at or (c.worker <> worker_ and c.leased_until > at) then
        c.worker := null;
        return c;
    end if;
    c.wait_until := null;
    select * into stream from relaybox.stream s where s.stream_id = known.stream_id;
    bound := least(known.through_place, stream.last_place);
    if c.redrive_place is null and c.fetched_place > c.done_place then
        -- what was fetched long ago and never acknowledged
        perform relaybox.refuse_detached(stream, c.done_place + 1, format('subscription %s, lane %s', known.subscription, c.lane));
    end if;
    c := relaybox.fetched_again(c, known, worker_);
    if c.redrive_place is not null or c.fetched_place > c.done_place then
        c.worker := worker_;
        c.leased_until := at + make_interval(secs => known.lease_seconds);
        return c;
    end if;
    c.worker := null;
    c.leased_until := null;
    select max(d.place) into c.redrive_place from (
        select r.place from relaybox.dead_letter r
        where r.subscription_id = known.subscription_id and r.lane = c.lane and r.state = 'redriving'
        order by r.place
        limit max_count
    ) d;
    if c.redrive_place is not null then
        c.fetch_count := 1;
        c.worker := worker_;
        c.leased_until := at + make_interval(secs => known.lease_seconds);
        return c;
    end if;
    wanted := max_count;
    if c.done_place >= bound then
        return c;
    end if;
    if c.done_place + 1 < stream.first_kept_place then
        perform relaybox.refuse_detached(stream, c.done_place + 1, format('subscription %s, lane %s', known.subscription, c.lane));
        raise exception using errcode = 'RB034',
            message = format(
                'subscription %s, lane %s: place %s comes next and is no longer kept; the first one is %s',
                known.subscription, c.lane, c.done_place + 1, stream.first_kept_place
            ),
            hint = 'The missing messages can''t be read here any more. To go on with what is kept, unsubscribe and subscribe anew at ''earliest''.';
    end if;
    if c.suspect_place > c.done_place then
        bound := least(bound, c.suspect_place);
        wanted := least(wanted, c.suspect_rows);
    end if;
    if known.rows_per_second is not null and c.done_place < c.replay_place then
        saved := least(extract(epoch from at - coalesce(c.rate_from, at - interval '1 second')) * known.rows_per_second / known.lanes, greatest(known.rows_per_second / known.lanes, 1));
        wanted := least(wanted, floor(saved));
        if wanted < 1 then
            return c;
        end if;
    end if;
    loop
        window_bound := bound;
        if known.hold_sender then
            window_bound := least(bound, c.done_place + wanted * known.lanes * 2 + 100);
            perform relaybox.hold_back(known, c.lane, c.done_place, window_bound);
        end if;
        select s.through_place, s.row_count into scan from relaybox.scan_lane(known, c.lane, c.done_place, window_bound, wanted) s;
        exit when scan.row_count > 0;
        c.done_place := scan.through_place;
        c.fetched_place := scan.through_place;
        if c.done_place >= bound then
            return c;
        end if;
    end loop;
    c.fetched_place := scan.through_place;
    if saved is not null then
        c.rate_from := at - make_interval(secs => ((saved - scan.row_count) * known.lanes / known.rows_per_second)::double precision);
    end if;
    c.fetch_count := case when c.suspect_place > c.done_place and c.suspect_rows > 1 then known.crash_limit else 1 end;
    c.worker := worker_;
    c.leased_until := at + make_interval(secs => known.lease_seconds);
    return c;
end
$$;

CREATE FUNCTION relaybox.next_index(sender text) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'relaybox', 'pg_temp'
    AS $$
declare
    given bigint;
begin
    perform relaybox.require_sender_role(next_index.sender);
    update relaybox.sender_counter c set last_index = c.last_index + 1 where c.sender = next_index.sender returning c.last_index into given;
    -- a later statement than the lock, which new_epoch() takes too
    if given is null or 'gapless' is distinct from (
        select s.kind from relaybox.store here
        join relaybox.sender_counter c on c.sender = next_index.sender
        join relaybox.sender s on s.origin = here.store and s.sender = c.sender and s.epoch = c.epoch
    ) then
        raise exception using errcode = 'RB022',
            message = format(
                'sender %s is %s in this store, and only gapless senders have a counter',
                next_index.sender, case when given is null then 'not declared' else 'sparse' end
            ),
            hint = format(
                case when given is null then 'Declare it: select relaybox.declare_sender(%L, ''gapless'')'
                    else 'Begin a gapless epoch: select relaybox.new_epoch(%L, ''gapless'')' end,
                next_index.sender
            );
    end if;
    return given;
end
$$;

CREATE FUNCTION relaybox.open_lanes(id integer, lanes integer, first_place bigint, replay_place bigint DEFAULT 0) RETURNS void
    LANGUAGE sql
    AS $$
    with opened as (
        insert into relaybox.lane (subscription_id, lane) select id, n from generate_series(1, lanes) n returning lane
    )
    insert into relaybox.cursor (subscription_id, lane, version, done_place, fetched_place, replay_place)
    select id, opened.lane, 1, first_place - 1, first_place - 1, replay_place from opened
$$;

CREATE FUNCTION relaybox.open_replay(known relaybox.subscription, name text, first_place_ bigint, last_place_ bigint, rows_per_second_ integer) RETURNS integer
    LANGUAGE plpgsql
    AS $$
declare
    made integer;
begin
    insert into relaybox.subscription (
        subscription, stream_id, topic, lanes, lane_by, lane_hash, first_place, through_place, replay_of, rows_per_second,
        nack_limit, crash_limit, hold_sender, retry_seconds, lease_seconds
    )
    values (
        name, known.stream_id, known.topic, known.lanes, known.lane_by, known.lane_hash, first_place_, last_place_, known.subscription_id,
        rows_per_second_, known.nack_limit, known.crash_limit, known.hold_sender, known.retry_seconds, known.lease_seconds
    )
    returning subscription_id into made;
    perform relaybox.open_lanes(made, known.lanes, first_place_, last_place_);
    return made;
end
$$;

CREATE FUNCTION relaybox.outbox_buckets(lower_ pg_snapshot, upper_ pg_snapshot, topics_ text[], bucket_seqs bigint, after_seq bigint) RETURNS TABLE(first_seq bigint, last_seq bigint, row_count bigint)
    LANGUAGE sql STABLE PARALLEL SAFE
    AS $$
    select min(p.seq), max(p.seq), count(*)
    from (
        select o.seq
        from relaybox.outbox o
        where o.xid >= pg_snapshot_xmax(lower_)
            and o.xid < pg_snapshot_xmax(upper_)
            and (o.xid < pg_snapshot_xmin(upper_) or pg_visible_in_snapshot(o.xid, upper_))
            and o.topic = any(topics_)
            and o.seq + 0 > after_seq
        union all
        select o.seq
        from relaybox.outbox o
        where o.xid = any(array(select x from pg_snapshot_xip(lower_) x where pg_visible_in_snapshot(x, upper_)))
            and o.topic = any(topics_)
            and o.seq + 0 > after_seq
    ) p
    group by p.seq / bucket_seqs
    order by 1
$$;

CREATE FUNCTION relaybox.outbox_buckets_after(lower_ pg_snapshot, upper_ pg_snapshot, topics_ text[], bucket_seqs bigint, after_seq bigint, pair_last_seq bigint, max_rows bigint) RETURNS TABLE(first_seq bigint, last_seq bigint, row_count bigint)
    LANGUAGE sql STABLE PARALLEL SAFE
    AS $$
    select min(p.seq), max(p.seq), count(*)
    from (
        select o.seq
        from relaybox.outbox o
        where o.seq > after_seq
            and o.seq <= pair_last_seq
            and o.topic = any(topics_)
            and (
                (o.xid >= pg_snapshot_xmax(lower_) and o.xid < pg_snapshot_xmax(upper_)
                    and (o.xid < pg_snapshot_xmin(upper_) or pg_visible_in_snapshot(o.xid, upper_)))
                or o.xid = any(array(select x from pg_snapshot_xip(lower_) x where pg_visible_in_snapshot(x, upper_)))
            )
        order by o.seq
        limit max_rows
    ) p
    group by p.seq / bucket_seqs
    order by 1
$$;

CREATE FUNCTION relaybox.outbox_covered() RETURNS bigint
    LANGUAGE sql STABLE
    AS $_$
    select coalesce(max((regexp_match(pg_get_expr(c.relpartbound, c.oid), $re$TO \('?(\d+)'?\)$re$))[1]::bigint), 0)
    from pg_inherits i
    join pg_class c on c.oid = i.inhrelid
    where i.inhparent = 'relaybox.outbox'::regclass
$_$;

CREATE FUNCTION relaybox.outbox_holders() RETURNS TABLE(kind text, holder text, needs_from bigint, since timestamp with time zone, policy text)
    LANGUAGE sql STABLE
    SET enable_seqscan TO 'off'
    AS $$
    with leaving as (
        select h.*, coalesce(c.through_position, 0) as settled_position
        from relaybox.hop_out h
        left join lateral relaybox.newest_confirmation(h.hop, 'settled') c on true
        where h.reads_log is null and h.retired_at is null
    ), needed as (
        select h.hop, s.first_read as seq, b.planned_at as since
        from leaving h
        join relaybox.batch b on b.hop = h.hop and b.last_position > h.settled_position
        cross join relaybox.batch_slices(b.slices) s
        union all
        -- its plan was lost: nobody knows which rows it had
        select h.hop, 0, b.planned_at from leaving h join relaybox.batch b on b.hop = h.hop and b.adopted and b.last_position > h.settled_position
        union all
        select h.hop, w.first_seq, null from leaving h cross join lateral relaybox.outbox_waiting(h.hop) w
    )
    select 'hop', h.hop, f.seq, coalesce(f.since, o.sent_at), h.stopped_consumer
    from leaving h
    join lateral (
        select n.seq, n.since from needed n where n.hop = h.hop and n.seq is not null order by n.seq, n.since limit 1
    ) f on true
    left join relaybox.outbox o on o.seq = f.seq
    union all
    select 'window', h.hop,
        case
            when h.replay_window_seconds is null then 0
            else (
                select min(s.first_read) from relaybox.batch b cross join relaybox.batch_slices(b.slices) s
                where b.hop = h.hop and b.planned_at > now() - make_interval(secs => h.replay_window_seconds)
            )
        end, null, null
    from leaving h
    union all
    select 'window', 'no hop reads the outbox', 0, null, null where not exists (select from relaybox.hop_out h where h.reads_log is null)
    union all
    select 'newest', 'outbox', q.last_value, null, null from relaybox.outbox_seq q
$$;

CREATE FUNCTION relaybox.outbox_waiting(hop_name text) RETURNS TABLE(first_seq bigint, row_count bigint)
    LANGUAGE sql STABLE
    AS $$
    select w.first_seq, w.row_count
    from relaybox.hop_out h
    left join relaybox.batch newest on newest.hop = h.hop and newest.batch = h.batch
    cross join lateral (
        -- one bucket takes every seq
        select b.first_seq, b.row_count
        from relaybox.outbox_buckets(h.lower, pg_current_snapshot(), h.topics, 4611686018427387904, h.anchor_seq) b
        union all
        select b.first_seq, b.row_count from relaybox.undelivered_buckets(h.undelivered, h.topics, 4611686018427387904) b
        union all
        select b.first_seq, b.row_count
        from relaybox.outbox_buckets_after(
            newest.lower, newest.upper, newest.topics, 4611686018427387904, newest.reads_through, newest.pair_last_seq, 4611686018427387904
        ) b
        where not newest.pair_exhausted and newest.generation = h.generation
    ) w
    where h.hop = hop_name and h.reads_log is null
$$;

CREATE FUNCTION relaybox.place_messages(here relaybox.stream, log_id integer, first_position bigint, last_position bigint) RETURNS bigint
    LANGUAGE plpgsql
    SET work_mem TO '256MB'
    SET jit TO 'off'
    AS $$
declare
    placed bigint;
    has_several_logs boolean := (select count(*) > 1 from relaybox.stream_log l where l.stream_id = here.stream_id);
    has_clean boolean := exists (select from pg_temp.batch_sender where in_order);
begin
    with ready as (
        select j.hop_id, j.position, j.t, j.epoch, j.ordinal, j.taken
        from pg_temp.judged j where j.verdict is null and j.t is not null
        union all
        select log_id, p, here.taken + p - first_position + 1, 0, 0, 0
        from generate_series(first_position, last_position) p
        where has_clean
            and not exists (select from pg_temp.judged j where j.hop_id = log_id and j.position = p)
            and p not in (
                select l.position from relaybox.log l join pg_temp.batch_sender b on b.sender = l.sender and b.epoch = l.epoch and b.waits
                where l.hop_id = log_id and l.position >= first_position and l.position <= last_position
            )
    ), numbered as (
        select r.hop_id, r.position,
            row_number() over (order by r.t, case when here.delivery_order = 'causal' then 0 else r.epoch end, r.ordinal, r.taken) as n
        from ready r
    ), islands as (
        -- a row of relaybox.delivery names one log, and most streams have but one
        select n.*, 0 as island from numbered n where not has_several_logs
        union all
        select n.*, n.n - row_number() over (partition by n.hop_id order by n.n) from numbered n where has_several_logs
    ), blocks as (
        select i.hop_id, i.island, (i.n - 1) / 1000 as block, min(i.n) as first_n, max(i.n) as last_n, array_agg(i.position order by i.n) as positions
        from islands i
        group by i.hop_id, i.island, (i.n - 1) / 1000
    ), shaped as (
        select b.*, b.positions[1] as first_position, b.positions[cardinality(b.positions)] as last_position,
            b.positions = array(
                select p from generate_series(b.positions[1], b.positions[1] + cardinality(b.positions) - 1) p
            ) as is_run
        from blocks b
    ), joined as (
        select s.*,
            sum(case when s.is_run and s.joins then 0 else 1 end) over (order by s.first_n) as piece
        from (
            select s.*,
                lag(s.is_run) over before and lag(s.hop_id) over before = s.hop_id and lag(s.last_position) over before + 1 = s.first_position as joins
            from shaped s
            window before as (order by s.first_n)
        ) s
    )
    insert into relaybox.delivery (stream_id, first_place, last_place, hop_id, first_position, positions)
    select here.stream_id, here.last_place + min(j.first_n), here.last_place + max(j.last_n), min(j.hop_id), min(j.first_position),
        case when bool_and(j.is_run) then null else min(j.positions) end
    from joined j
    group by j.piece;
    select coalesce(max(d.last_place), here.last_place) - here.last_place into placed
    from relaybox.delivery d where d.stream_id = here.stream_id and d.last_place > here.last_place;
    return placed;
end
$$;

CREATE FUNCTION relaybox.places_between(stream_id_ integer, start text, through text, OUT first_place bigint, OUT last_place bigint) RETURNS record
    LANGUAGE plpgsql STABLE
    AS $_$
begin
    first_place := relaybox.start_place(stream_id_, start);
    select least(s.last_place, relaybox.start_place(stream_id_, coalesce(through, 'latest')) - case when through ~ '^[0-9]+$' then 0 else 1 end)
    into last_place from relaybox.stream s where s.stream_id = stream_id_;
end
$_$;

CREATE FUNCTION relaybox.processed_reading(hop_name text, subscriptions text[], OUT through_position bigint, OUT happened_at timestamp with time zone, OUT missing text[]) RETURNS record
    LANGUAGE plpgsql
    AS $$
declare
    log_here relaybox.stream_log;
begin
    perform relaybox.require_writable_primary();
    set local synchronous_commit = on;
    select l.* into log_here from relaybox.hop_in i join relaybox.stream_log l on l.hop_id = i.hop_id where i.hop = hop_name;
    if not found then
        raise exception using errcode = 'RB004', message = format('hop %s arrives in no stream of this store', hop_name), hint = 'Run: relaybox init';
    end if;
    -- the locks are written to WAL, so that the COMMIT flushes what consumers committed before without waiting for it
    perform from relaybox.subscription s
    where s.subscription = any(subscriptions) and s.stream_id = log_here.stream_id and s.ended_at is null and s.replay_of is null
    for key share;
    missing := array(
        select n from unnest(subscriptions) n
        where not exists (
            select from relaybox.subscription s
            where s.subscription = n and s.stream_id = log_here.stream_id and s.ended_at is null and s.replay_of is null
        )
    );
    if missing <> '{}' then
        through_position := 0;
        return;
    end if;
    -- one statement, one snapshot
    select
        case
            when r.done_place >= s.last_place then relaybox.resolved_position(log_here.hop_id)
            else coalesce((
                select k.resolved_position from relaybox.decision k
                where k.hop_id = log_here.hop_id and k.last_place <= r.done_place and k.resolved_position is not null
                order by k.last_place desc, k.batch desc
                limit 1
            ), 0)
        end,
        r.moved_at
    into through_position, happened_at
    from relaybox.stream s
    cross join lateral (
        select min(least(greatest(c.done_place, c.replay_place), letter.place - 1)) as done_place, max(c.moved_at) as moved_at
        from relaybox.subscription n
        join relaybox.lane_cursors c on c.subscription_id = n.subscription_id
        cross join lateral (
            select min(d.place) as place from relaybox.dead_letter d
            where d.subscription_id = c.subscription_id and d.lane = c.lane and d.state in ('open', 'redriving')
        ) letter
        where n.subscription = any(subscriptions) and n.stream_id = log_here.stream_id and n.ended_at is null and n.replay_of is null
    ) r
    where s.stream_id = log_here.stream_id;
end
$$;

CREATE FUNCTION relaybox.publish_batch(log_id integer, generation_ integer, batch_ bigint, plan_id_ uuid, first_position_ bigint, last_position_ bigint, slice_count_ integer, source_system_identifier_ bigint, source_timeline_ integer) RETURNS relaybox.arrival
    LANGUAGE plpgsql
    AS $_$
declare
    head relaybox.hop_in;
    arrived relaybox.arrival;
    receipt_count integer;
    rows_here bigint;
    first_has_own_index boolean;
    has_own_indexes_here boolean;
    declared text[];
begin
    perform relaybox.require_writable_primary();
    set local synchronous_commit = on;
    select * into head from relaybox.hop_in i where i.hop_id = log_id for update;
    if head.generation <> generation_ then
        raise exception using errcode = 'RB015',
            message = format('hop %s: batch %s is of generation %s, the hop is in generation %s here', head.hop, batch_, generation_, head.generation);
    end if;
    if batch_ <= head.compacted_batch then
        raise exception using errcode = 'RB015',
            message = format('hop %s: batch %s was published long ago; what was written down about it is removed', head.hop, batch_);
    end if;
    select * into arrived from relaybox.arrival a where a.hop_id = log_id and a.batch = batch_;
    if found then
        if (arrived.plan_id, arrived.first_position, arrived.last_position) <> (plan_id_, first_position_, last_position_) then
            perform relaybox.refuse_other_plan(log_id, batch_, arrived.plan_id, plan_id_);
        end if;
        return arrived;
    end if;
    if (head.published_batch, head.published_position) <> (batch_ - 1, first_position_ - 1) then
        raise exception using errcode = 'RB011',
            message = format(
                'hop %s: batch %s from position %s does not follow; this store has published batch %s through position %s',
                head.hop, batch_, first_position_, head.published_batch, head.published_position
            ),
            hint = 'One of the two stores lost history. See what is missing with: relaybox reanchor ' || head.hop;
    end if;
    select count(*) into receipt_count from relaybox.receipt r where r.hop_id = log_id and r.batch = batch_ and r.plan_id = plan_id_;
    if receipt_count <> slice_count_ then
        raise exception using errcode = 'RB013',
            message = format('hop %s: batch %s has %s receipts of %s slices', head.hop, batch_, receipt_count, slice_count_),
            hint = 'A slice was not copied yet. Run the transfer again; it resumes this batch.';
    end if;
    first_has_own_index := (select l.epoch > 0 from relaybox.log l where l.hop_id = log_id and l.position = first_position_);
    -- rows this fresh are not all-visible yet, and their segment has no statistics for the planner to choose by:
    -- a bitmap visits each page once, an index-only scan once per row; half a segment and more is scanned whole, in parallel
    set local enable_indexonlyscan = off;
    set local enable_indexscan = off;
    set local work_mem = '64MB';
    if last_position_ - first_position_ >= (select s.segment_rows / 2 from relaybox.store s) then
        set local enable_bitmapscan = off;
        set local enable_seqscan = on;
    end if;
    select array_agg(distinct d.sender) into declared
    from relaybox.stream_log l join relaybox.sender d on d.origin = l.origin where l.hop_id = log_id;
    perform relaybox.make_published_sender();
    if first_has_own_index then
        -- probably more of them have an index: whoever decides on the batch in this session finds its senders counted
        insert into pg_temp.published_sender
        select log_id, batch_, c.* from relaybox.count_senders(log_id, first_position_, last_position_) c;
        select coalesce(sum(p.row_count), 0), bool_or(p.epoch > 0 or coalesce(p.sender = any(declared), false))
        into rows_here, has_own_indexes_here from pg_temp.published_sender p;
    else
        -- dynamic, because only so may plpgsql count in parallel
        execute 'select count(*), max(l.epoch) > 0 or coalesce(bool_or(l.sender = any($4)), false)
            from relaybox.log l where l.hop_id = $1 and l.position >= $2 and l.position <= $3'
        into rows_here, has_own_indexes_here using log_id, first_position_, last_position_, declared;
    end if;
    if rows_here <> last_position_ - first_position_ + 1 then
        raise exception using errcode = 'RB014',
            message = format(
                'hop %s: batch %s has %s rows in positions %s to %s, expected %s',
                head.hop, batch_, rows_here, first_position_, last_position_, last_position_ - first_position_ + 1
            ),
            hint = 'Rows of this log were removed after they were copied. Nothing was published.';
    end if;
    insert into relaybox.arrival (
        hop_id, batch, plan_id, first_position, last_position, row_count, slice_count, source_system_identifier, source_timeline,
        has_own_indexes
    )
    values (
        log_id, batch_, plan_id_, first_position_, last_position_, rows_here, slice_count_, source_system_identifier_, source_timeline_,
        has_own_indexes_here
    )
    returning * into arrived;
    update relaybox.hop_in set published_batch = batch_, published_position = last_position_ where hop_id = log_id;
    return arrived;
end
$_$;

CREATE FUNCTION relaybox.rank_by_clocks() RETURNS void
    LANGUAGE sql
    AS $$
    update pg_temp.judged j set ordinal = case when j.verdict is null then least(9000000000000000000, j.index + coalesce((
        select sum(e.index) from relaybox.log l cross join relaybox.clock_entries(l.clock) e
        join relaybox.sender_state me on me.sender_id = j.sender_id
        where l.hop_id = j.hop_id and l.position = j.position and e.sender <> me.sender
    ), 0)) else 0 end
    where j.counts
$$;

CREATE FUNCTION relaybox.read_dense_slice(first_seq bigint, last_seq bigint, first_position bigint) RETURNS TABLE("position" bigint, index bigint, epoch integer, message_id uuid, sent_at timestamp with time zone, topic text, sender text, key text, headers jsonb, payload text, payload_bytes bytea, clock jsonb)
    LANGUAGE sql STABLE PARALLEL SAFE
    AS $$
    select
        o.seq - first_seq + first_position, coalesce(o.index, o.seq - first_seq + first_position),
        case when o.index is null then 0 else o.epoch end, o.message_id, o.sent_at,
        o.topic, o.sender, o.key, o.headers, o.payload, o.payload_bytes, o.clock
    from relaybox.outbox o
    where o.seq >= first_seq and o.seq <= last_seq
$$;

CREATE FUNCTION relaybox.read_log(hop_name text, after_position bigint DEFAULT 0, max_count integer DEFAULT 1000) RETURNS TABLE("position" bigint, message_id uuid, topic text, sender text, epoch integer, index bigint, key text, payload text, payload_bytes bytea, headers jsonb, clock jsonb, sent_at timestamp with time zone)
    LANGUAGE plpgsql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'relaybox', 'pg_temp'
    AS $$
declare
    log_here relaybox.hop_in;
    lies relaybox.detached_segment;
begin
    select * into log_here from relaybox.hop_in i where i.hop = hop_name;
    if not found then
        raise exception using errcode = 'RB004', message = format('hop %s does not arrive in this store', hop_name),
            hint = 'Known here: ' || coalesce((select string_agg(i.hop, ', ' order by i.hop) from relaybox.hop_in i), 'none') || '.';
    end if;
    if after_position > 0 and after_position + 1 < log_here.first_kept_position then
        select * into lies from relaybox.detached_segment d
        where d.hop_id = log_here.hop_id and d.state = 'detached' and after_position + 1 between d.first and d.last;
        if found then
            raise exception using errcode = 'RB038',
                message = format(
                    'hop %s: position %s is detached, its message lies in %s; the first one here is %s',
                    hop_name, after_position + 1, lies.directory, log_here.first_kept_position
                ),
                hint = format('Bring it back: relaybox attach %s %s', (select s.store from relaybox.store s), hop_name);
        end if;
        raise exception using errcode = 'RB034',
            message = format('hop %s: position %s is no longer kept here; the first one is %s', hop_name, after_position + 1, log_here.first_kept_position),
            hint = format('Read after position 0 for all that is kept, or after %s.', log_here.first_kept_position - 1);
    end if;
    return query
    select
        l.position, l.message_id, l.topic, l.sender, l.epoch, l.index, l.key, l.payload, l.payload_bytes, l.headers, l.clock, l.sent_at
    from relaybox.log l
    where l.hop_id = log_here.hop_id and l.position > after_position and l.position <= log_here.published_position
    order by l.position
    limit max_count;
end
$$;

CREATE FUNCTION relaybox.read_log_slice(log_id integer, first_read bigint, last_read bigint, first_position bigint) RETURNS TABLE("position" bigint, index bigint, epoch integer, message_id uuid, sent_at timestamp with time zone, topic text, sender text, key text, headers jsonb, payload text, payload_bytes bytea, clock jsonb)
    LANGUAGE sql STABLE PARALLEL SAFE
    AS $$
    select
        l.position - first_read + first_position, l.index, l.epoch, l.message_id, l.sent_at,
        l.topic, l.sender, l.key, l.headers, l.payload, l.payload_bytes, l.clock
    from relaybox.log l
    where l.hop_id = log_id and l.position >= first_read and l.position <= last_read
$$;

CREATE FUNCTION relaybox.read_outbox_slice(lower_ pg_snapshot, upper_ pg_snapshot, topics_ text[], first_seq bigint, last_seq bigint, first_position bigint) RETURNS TABLE("position" bigint, index bigint, epoch integer, message_id uuid, sent_at timestamp with time zone, topic text, sender text, key text, headers jsonb, payload text, payload_bytes bytea, clock jsonb)
    LANGUAGE sql STABLE PARALLEL SAFE
    AS $$
    select
        first_position - 1 + row_number() over (order by o.seq),
        coalesce(o.index, first_position - 1 + row_number() over (order by o.seq)),
        case when o.index is null then 0 else o.epoch end, o.message_id, o.sent_at,
        o.topic, o.sender, o.key, o.headers, o.payload, o.payload_bytes, o.clock
    from relaybox.outbox o
    where o.seq >= first_seq
        and o.seq <= last_seq
        and o.topic = any(topics_)
        and (
            (o.xid >= pg_snapshot_xmax(lower_) and o.xid < pg_snapshot_xmax(upper_)
                and (o.xid < pg_snapshot_xmin(upper_) or pg_visible_in_snapshot(o.xid, upper_)))
            or o.xid = any(array(select x from pg_snapshot_xip(lower_) x where pg_visible_in_snapshot(x, upper_)))
        )
$$;

CREATE FUNCTION relaybox.read_stream(stream_name text, after_place bigint DEFAULT 0, max_count integer DEFAULT 1000) RETURNS TABLE(place bigint, hop text, "position" bigint, message_id uuid, topic text, sender text, epoch integer, index bigint, key text, payload text, payload_bytes bytea, headers jsonb, clock jsonb, sent_at timestamp with time zone)
    LANGUAGE plpgsql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'relaybox', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET jit TO 'off'
    SET work_mem TO '64MB'
    AS $$
declare
    known relaybox.stream;
    run record;
    through bigint;
    first bigint;
    last bigint;
begin
    select * into known from relaybox.stream s where s.stream = stream_name;
    if not found then
        raise exception using errcode = 'RB032', message = format('there is no stream %s in this store', stream_name),
            hint = 'Known here: ' || coalesce((select string_agg(s.stream, ', ' order by s.stream) from relaybox.stream s), 'none') || '.';
    end if;
    if after_place > 0 and after_place + 1 < known.first_kept_place then
        perform relaybox.refuse_detached(known, after_place + 1, format('stream %s', stream_name));
        raise exception using errcode = 'RB034',
            message = format('stream %s: place %s is no longer kept; the first one is %s', stream_name, after_place + 1, known.first_kept_place),
            hint = format('Read after place 0 for all that is kept, or after %s.', known.first_kept_place - 1);
    end if;
    after_place := greatest(after_place, known.first_kept_place - 1);
    through := least(known.last_place, after_place + max_count);
    for run in
        select d.first_place, d.last_place, d.hop_id, i.hop, d.first_position, d.positions
        from relaybox.delivery d
        join relaybox.hop_in i on i.hop_id = d.hop_id
        where d.stream_id = known.stream_id and d.last_place > after_place
        order by d.last_place
    loop
        exit when run.first_place > through;
        first := greatest(run.first_place, after_place + 1) - run.first_place;
        last := least(run.last_place, through) - run.first_place;
        if run.positions is null then
            return query
            select
                l.position - run.first_position + run.first_place, run.hop, l.position, l.message_id, l.topic, l.sender, l.epoch, l.index,
                l.key, l.payload, l.payload_bytes, l.headers, l.clock, l.sent_at
            from relaybox.log l
            where l.hop_id = run.hop_id and l.position >= run.first_position + first and l.position <= run.first_position + last
            order by l.position;
        else
            return query
            select
                run.first_place + first + u.n - 1, run.hop, l.position, l.message_id, l.topic, l.sender, l.epoch, l.index,
                l.key, l.payload, l.payload_bytes, l.headers, l.clock, l.sent_at
            from unnest(run.positions[first + 1:last + 1]) with ordinality u (wanted, n)
            join relaybox.log l on l.hop_id = run.hop_id and l.position = u.wanted
            order by u.n;
        end if;
    end loop;
end
$$;

CREATE FUNCTION relaybox.receiving_state(hop_name text, confirmed_batch bigint) RETURNS TABLE(published_batch bigint, published_position bigint, published_at timestamp with time zone, copied_slices integer[], due_received bigint, due_unique bigint)
    LANGUAGE sql STABLE
    AS $$
    select
        i.published_batch, i.published_position, newest.published_at,
        array(select r.slice from relaybox.receipt r where r.hop_id = i.hop_id and r.batch = i.published_batch + 1 order by r.slice),
        due.received + gone.positions, due.positions + gone.positions
    from relaybox.hop_in i
    left join relaybox.arrival newest on newest.hop_id = i.hop_id and newest.batch = i.published_batch
    cross join lateral (
        select
            coalesce(sum(a.row_count), 0)::bigint as received,
            coalesce((
                select sum(upper(run) - lower(run)) from unnest(range_agg(int8range(a.first_position, a.last_position, '[]'))) run
            ), 0)::bigint as positions
        from relaybox.arrival a
        where a.hop_id = i.hop_id and a.batch <= confirmed_batch
    ) due
    -- removed ledgers were dense: as many rows as positions
    cross join lateral (select case when confirmed_batch >= i.compacted_batch then i.compacted_position else 0 end as positions) gone
    where i.hop = hop_name
$$;

CREATE FUNCTION relaybox.record_action(subscription_name text, action_ text, reason_ text, detail_ jsonb) RETURNS void
    LANGUAGE sql
    AS $$
    insert into relaybox.consumer_action (subscription, action, reason, detail)
    select subscription_name, action_, reason_, detail_ || jsonb_strip_nulls(jsonb_build_object(
        'on_behalf_of', nullif(current_setting('relaybox.on_behalf_of', true), '')
    ))
$$;

CREATE FUNCTION relaybox.record_attempt(hop_name text, batch_ bigint, attempt_ bigint, recorded_by_ text, application_ text) RETURNS bigint
    LANGUAGE sql
    AS $$
    insert into relaybox.attempt (hop, batch, attempt, recorded_by, application)
    values (hop_name, batch_, attempt_, recorded_by_, application_)
    on conflict do nothing;
    select attempt_
$$;

CREATE TABLE relaybox.batch (
    hop text NOT NULL,
    batch bigint NOT NULL,
    plan_id uuid DEFAULT gen_random_uuid() NOT NULL,
    topics text[],
    lower pg_snapshot,
    upper pg_snapshot,
    pair_last_seq bigint,
    pair_exhausted boolean NOT NULL,
    reads_after bigint NOT NULL,
    reads_through bigint NOT NULL,
    first_position bigint NOT NULL,
    last_position bigint NOT NULL,
    row_count bigint NOT NULL,
    slices jsonb NOT NULL,
    system_identifier bigint NOT NULL,
    timeline integer NOT NULL,
    next_xid xid8 NOT NULL,
    planned_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    generation integer DEFAULT 1 NOT NULL,
    adopted boolean DEFAULT false NOT NULL,
    xid xid8 DEFAULT pg_current_xact_id() NOT NULL,
    digests text[],
    CONSTRAINT batch_has_slices CHECK ((adopted = (jsonb_array_length(slices) = 0))),
    CONSTRAINT batch_positions_dense CHECK (((((last_position - first_position) + 1) = row_count) AND (first_position >= 1))),
    CONSTRAINT batch_range_not_empty CHECK (((batch >= 1) AND (row_count >= 1) AND (adopted OR (reads_through > reads_after)))),
    CONSTRAINT one_digest_per_slice CHECK ((cardinality(digests) = jsonb_array_length(slices))),
    CONSTRAINT pair_is_whole CHECK ((((lower IS NULL) = (upper IS NULL)) AND ((upper IS NULL) = (pair_last_seq IS NULL)))),
    CONSTRAINT pair_moves_forward CHECK (((pg_snapshot_xmin(upper) >= pg_snapshot_xmin(lower)) AND (pg_snapshot_xmax(upper) >= pg_snapshot_xmax(lower))))
);

COMMENT ON COLUMN relaybox.batch.xid IS 'of the planning transaction: equal to the row''s xmin unless the store was dumped and reloaded';

CREATE FUNCTION relaybox.record_batch(hop_name text, lower_ pg_snapshot, upper_ pg_snapshot, pair_last_seq_ bigint, pair_exhausted_ boolean, reads_after_ bigint, reads_through_ bigint, row_count_ bigint, slices_ jsonb, digests_ text[], system_identifier_ bigint, timeline_ integer, next_xid_ xid8) RETURNS relaybox.batch
    LANGUAGE plpgsql
    AS $$
declare
    head relaybox.hop_out;
    previous relaybox.batch;
    planned relaybox.batch;
    undelivered_part boolean := coalesce(upper_::text = relaybox.every_transaction()::text, false);
begin
    select * into head from relaybox.hop_out h where h.hop = hop_name for update;
    -- a pair that an older generation left unfinished is not continued: its rest is among the undelivered
    select * into previous from relaybox.batch b
    where b.hop = hop_name and b.batch = head.batch and (head.reads_log is not null or b.generation = head.generation);
    if head.batch > 0 and not exists (
        select from relaybox.confirmation c
        where c.hop = hop_name and c.state = 'received' and c.through_batch = head.batch
    ) then
        raise exception using errcode = 'RB005', message = format('hop %s: batch %s is not confirmed yet', hop_name, head.batch);
    end if;
    if undelivered_part is distinct from (head.reads_log is null and head.undelivered <> '{}') then
        raise exception using errcode = 'RB005', message = format('hop %s: what generation %s found undelivered comes first', hop_name, head.generation);
    end if;
    if head.reads_log is not null and reads_after_ <> coalesce(previous.reads_through, 0)
        or head.reads_log is null and not undelivered_part and not coalesce(previous.pair_exhausted, true)
            and (lower_::text, upper_::text, reads_after_) <> (previous.lower::text, previous.upper::text, previous.reads_through)
        or head.reads_log is null and not undelivered_part and coalesce(previous.pair_exhausted, true) and lower_::text <> head.lower::text
    then
        raise exception using errcode = 'RB005', message = format('hop %s: the plan does not follow batch %s', hop_name, head.batch);
    end if;
    insert into relaybox.batch (
        hop, batch, topics, lower, upper, pair_last_seq, pair_exhausted, reads_after, reads_through,
        first_position, last_position, row_count, slices, digests, system_identifier, timeline, next_xid,
        generation
    )
    values (
        hop_name, head.batch + 1, head.topics, lower_, upper_, pair_last_seq_, pair_exhausted_, reads_after_, reads_through_,
        head.position + 1, head.position + row_count_, row_count_, slices_, digests_, system_identifier_, timeline_, next_xid_,
        head.generation
    )
    returning * into planned;
    update relaybox.hop_out
    set batch = planned.batch, position = planned.last_position,
        lower = case when undelivered_part then lower else coalesce(upper_, lower) end,
        undelivered = case when undelivered_part then undelivered - int8multirange(int8range(0, reads_through_, '[]')) else undelivered end
    where hop = hop_name;
    return planned;
end
$$;

CREATE FUNCTION relaybox.record_downstream(hop_name text, state_ text, through_position_ bigint, through_batch_ bigint, happened_at_ timestamp with time zone, recorded_by_ text) RETURNS void
    LANGUAGE sql
    AS $$
    insert into relaybox.confirmation (hop, state, through_position, through_batch, happened_at, recorded_by)
    values (hop_name, state_, through_position_, through_batch_, happened_at_, recorded_by_)
    on conflict do nothing
$$;

CREATE FUNCTION relaybox.redrive(subscription text, reason text, letter bigint DEFAULT NULL::bigint) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'relaybox', 'pg_temp'
    AS $$
declare
    known relaybox.subscription := relaybox.subscription_named(redrive.subscription);
    wanted relaybox.dead_letter;
    earlier bigint;
    redriven bigint;
begin
    perform relaybox.require_reason(reason, 'dead letters are redriven', 'redrive(subscription, ''why'')');
    perform from relaybox.lane l where l.subscription_id = known.subscription_id order by l.lane for update;
    if letter is not null then
        select * into wanted from relaybox.dead_letter d
        where d.dead_letter_id = letter and d.subscription_id = known.subscription_id and d.state = 'open';
        if not found then
            perform relaybox.refuse_letter_of_stream(letter);
            raise exception using errcode = 'RB037', message = format('subscription %s has no open dead letter %s', known.subscription, letter),
                hint = 'See: relaybox dead-letters list';
        end if;
        select min(d.dead_letter_id) into earlier from relaybox.dead_letter d
        where known.hold_sender and d.subscription_id = known.subscription_id and d.sender = wanted.sender and d.lane = wanted.lane
            and d.place < wanted.place and d.state = 'open';
        if earlier is not null then
            raise exception using errcode = 'RB037',
                message = format('dead letter %s waits behind dead letter %s of the same sender', letter, earlier),
                hint = 'Redrive or drop that one first: the subscription keeps the order of each sender.';
        end if;
    end if;
    update relaybox.dead_letter d set state = 'redriving'
    where d.subscription_id = known.subscription_id and d.state = 'open'
        and (
            letter is null or d.dead_letter_id = letter
            or (known.hold_sender and d.sender = wanted.sender and d.lane = wanted.lane and d.reason = 'waits_behind' and d.place < coalesce((
                select min(n.place) from relaybox.dead_letter n
                where n.subscription_id = known.subscription_id and n.sender = wanted.sender and n.lane = wanted.lane
                    and n.state = 'open' and n.reason <> 'waits_behind' and n.place > wanted.place
            ), 9223372036854775807))
        );
    get diagnostics redriven = row_count;
    perform relaybox.record_action(known.subscription, 'redrive', reason, jsonb_build_object('letter', letter, 'count', redriven));
    return redriven;
end
$$;

CREATE FUNCTION relaybox.refuse_detached(known relaybox.stream, place_ bigint, who text) RETURNS void
    LANGUAGE plpgsql STABLE
    AS $$
declare
    at record;
begin
    if place_ <= known.dropped_place or place_ >= known.first_kept_place then
        return;
    end if;
    with stands as (
        select d.hop_id, coalesce(d.positions[place_ - d.first_place + 1], d.first_position + place_ - d.first_place) as position
        from relaybox.delivery d
        where d.stream_id = known.stream_id and d.last_place >= place_
        order by d.last_place limit 1
    )
    select i.hop, d.directory, sum(d.row_count) over (partition by d.hop_id) as messages, count(*) over (partition by d.hop_id) as segments into at
    from relaybox.detached_segment d
    join relaybox.stream_log l on l.hop_id = d.hop_id
    join relaybox.hop_in i on i.hop_id = d.hop_id
    left join stands s on s.hop_id = d.hop_id and s.position between d.first and d.last
    where l.stream_id = known.stream_id and d.state = 'detached'
    order by s.position nulls last, d.first
    limit 1;
    if not found then
        return;
    end if;
    raise exception using errcode = 'RB038',
        message = format('%s: place %s is detached, its message lies in %s; the first place here is %s', who, place_, at.directory, known.first_kept_place),
        hint = format(
            'Bring it back: relaybox attach %s %s (%s segments, %s messages). Nothing is lost, and no cursor has moved.',
            (select s.store from relaybox.store s), at.hop, at.segments, at.messages
        );
end
$$;

CREATE FUNCTION relaybox.refuse_letter_of_stream(letter bigint) RETURNS void
    LANGUAGE plpgsql STABLE
    AS $$
declare
    found_ record;
    again text;
begin
    select d.dead_letter_id, s.stream, d.reason, g.origin, l.sender, l.epoch, l.index into found_
    from relaybox.dead_letter d
    join relaybox.stream s on s.stream_id = d.stream_id
    join relaybox.stream_log g on g.hop_id = d.hop_id
    left join relaybox.log l on l.hop_id = d.hop_id and l.position = d.position
    where d.dead_letter_id = letter and d.subscription_id is null;
    if not found then
        return;
    end if;
    again := case
        when found_.reason in ('sender_not_declared', 'epoch_not_begun') then format('declare it (relaybox senders declare %s %s gapless), then send the message again with the same index', found_.origin, found_.sender)
        when found_.reason = 'sender_not_gapless' then format('begin a gapless epoch (relaybox senders new-epoch %s %s gapless), then send the message again in it', found_.origin, found_.sender)
        when found_.reason = 'index_too_far' then 'send the message again with the same index, once those before it have been sent'
        else 'if it is still wanted, send it again with the sender''s next index'
    end;
    raise exception using errcode = 'RB037',
        message = format(
            'dead letter %s was set aside by stream %s (%s), not by a consumer: every store of the route decided so, and what a stream decided never changes',
            letter, found_.stream, found_.reason
        ),
        hint = format('At %s: %s, as a new message with an id of its own. Then drop this letter: relaybox dead-letters drop %s %s --reason TEXT', found_.origin, again, (select s.store from relaybox.store s), letter);
end
$$;

CREATE FUNCTION relaybox.refuse_other_plan(log_id integer, batch_ bigint, plan_here uuid, plan_offered uuid) RETURNS void
    LANGUAGE plpgsql STABLE
    AS $$
begin
    raise exception using errcode = 'RB012',
        message = format(
            'hop %s: batch %s is here with plan %s; the source now offers plan %s under the same number',
            (select i.hop from relaybox.hop_in i where i.hop_id = log_id), batch_, plan_here, plan_offered
        ),
        hint = 'The source lost history after this batch was sent. Nothing was overwritten. See what is missing with: relaybox reanchor '
            || (select i.hop from relaybox.hop_in i where i.hop_id = log_id);
end
$$;

CREATE TABLE relaybox.hop_out (
    hop text NOT NULL,
    destination text NOT NULL,
    reads_log integer,
    topics text[],
    policy text NOT NULL,
    batch bigint DEFAULT 0 NOT NULL,
    "position" bigint DEFAULT 0 NOT NULL,
    lower pg_snapshot,
    attempt bigint DEFAULT 0 NOT NULL,
    system_identifier bigint NOT NULL,
    timeline integer NOT NULL,
    registered_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    generation integer DEFAULT 1 NOT NULL,
    anchor_seq bigint DEFAULT 0 NOT NULL,
    undelivered int8multirange DEFAULT '{}'::int8multirange NOT NULL,
    resend_through bigint DEFAULT 0 NOT NULL,
    replay_window_seconds bigint,
    stopped_consumer text DEFAULT 'alarm'::text NOT NULL,
    compacted_batch bigint DEFAULT 0 NOT NULL,
    compacted_position bigint DEFAULT 0 NOT NULL,
    processed_by text[],
    retired_at timestamp with time zone,
    retired_by text,
    retired_reason text,
    given_up pg_snapshot,
    CONSTRAINT outbox_hop_names_its_topics CHECK (((reads_log IS NULL) = ((cardinality(topics) > 0) AND (topics IS NOT NULL)))),
    CONSTRAINT planned_never_negative CHECK (((batch >= 0) AND ("position" >= 0))),
    CONSTRAINT policy_is_known CHECK ((policy = ANY (ARRAY['received'::text, 'cascade'::text, 'processed'::text]))),
    CONSTRAINT processed_by_somebody CHECK (((processed_by IS NULL) OR ((policy = 'processed'::text) AND (cardinality(processed_by) > 0)))),
    CONSTRAINT reads_outbox_or_log CHECK (((reads_log IS NULL) = (lower IS NOT NULL))),
    CONSTRAINT replay_window_never_negative CHECK ((replay_window_seconds >= 0)),
    CONSTRAINT retired_by_somebody CHECK ((((retired_at IS NULL) = (retired_by IS NULL)) AND ((retired_at IS NULL) = (retired_reason IS NULL)))),
    CONSTRAINT stopped_consumer_is_known CHECK ((stopped_consumer = ANY (ARRAY['keep'::text, 'alarm'::text])))
);

COMMENT ON COLUMN relaybox.hop_out.lower IS 'snapshot from which the next pair starts; all that it sees is in a batch';

COMMENT ON COLUMN relaybox.hop_out.attempt IS 'newest driver of this hop; a higher number supersedes a lower one';

COMMENT ON COLUMN relaybox.hop_out.anchor_seq IS 'pairs of this generation read above it; no transaction that wrote up to it was open';

COMMENT ON COLUMN relaybox.hop_out.undelivered IS 'seqs up to anchor_seq that no batch has read yet, nor any older generation delivered';

COMMENT ON COLUMN relaybox.hop_out.resend_through IS 'an operator said: batches up to this one may be sent again, the destination lost them';

COMMENT ON COLUMN relaybox.hop_out.replay_window_seconds IS 'of a hop that reads the outbox: what it sent stays there for so long; null: for ever';

COMMENT ON COLUMN relaybox.hop_out.compacted_batch IS 'plans and confirmations up to it were removed: none of their messages is kept';

COMMENT ON COLUMN relaybox.hop_out.processed_by IS 'subscriptions at the destination, the last store of a route with policy processed; null: the hop asks none';

COMMENT ON COLUMN relaybox.hop_out.given_up IS 'a retired hop that read the outbox: what its topics had committed by then waits for nobody';

CREATE FUNCTION relaybox.refuse_retired_hop(known relaybox.hop_out) RETURNS void
    LANGUAGE plpgsql STABLE
    AS $$
begin
    if known.retired_at is not null then
        raise exception using errcode = 'RB006',
            message = format(
                'hop %s was retired by %s on %s: %s', known.hop, known.retired_by,
                to_char(known.retired_at at time zone 'UTC', 'YYYY-MM-DD HH24:MI:SS UTC'), known.retired_reason
            ),
            hint = 'Nobody kept its messages. Give the route a new name.';
    end if;
end
$$;

CREATE FUNCTION relaybox.register_hop_in(hop_name text, source_ text, OUT log_id integer, OUT registered boolean) RETURNS record
    LANGUAGE plpgsql
    AS $$
begin
    select i.hop_id into log_id from relaybox.hop_in i where i.hop = hop_name;
    registered := not found;
    if registered then
        insert into relaybox.hop_in (hop, source) values (hop_name, source_) returning hop_id into log_id;
        execute format('create table relaybox.log_%s partition of relaybox.log for values in (%s) partition by range (position)', log_id, log_id);
        execute format('alter table relaybox.log_%s alter column hop_id set default %s', log_id, log_id);
    end if;
    perform relaybox.ensure_log_segments(log_id, 0);
end
$$;

CREATE FUNCTION relaybox.register_hop_out(hop_name text, destination_ text, upstream text, topics_ text[], policy_ text, processed_by_ text[] DEFAULT NULL::text[]) RETURNS text
    LANGUAGE plpgsql
    AS $$
declare
    log_id integer := (select i.hop_id from relaybox.hop_in i where i.hop = upstream);
    known relaybox.hop_out;
begin
    select * into known from relaybox.hop_out h where h.hop = hop_name for update;
    if not found then
        -- a hop keeps the positions of the log that it reads
        perform from relaybox.hop_in i where i.hop_id = log_id and i.first_kept_position > 1 for key share;
        if found then
            raise exception using errcode = 'RB006',
                message = format('hop %s would read the log of hop %s, which keeps no message below position %s any more', hop_name, upstream, (
                    select i.first_kept_position from relaybox.hop_in i where i.hop_id = log_id
                )),
                hint = 'Give the longer route a new name, and a path from the store where its messages are sent.';
        end if;
        insert into relaybox.hop_out (hop, destination, reads_log, topics, policy, processed_by, lower, system_identifier, timeline)
        select
            hop_name, destination_, log_id, case when upstream is null then topics_ end, policy_, processed_by_,
            case when upstream is null then '1:1:'::pg_snapshot end, f.system_identifier, f.timeline
        from relaybox.cluster_fingerprint() f;
        return 'registered';
    end if;
    perform relaybox.refuse_retired_hop(known);
    if known.destination <> destination_ or known.reads_log is distinct from log_id then
        raise exception using errcode = 'RB006',
            message = format('hop %s is registered here with destination %s; the file says %s', hop_name, known.destination, destination_),
            hint = 'A hop keeps its path for ever. Give the changed route a new name.';
    end if;
    if known.policy = policy_ and known.processed_by is not distinct from processed_by_ and (upstream is not null or known.topics = topics_) then
        return 'unchanged';
    end if;
    update relaybox.hop_out set policy = policy_, processed_by = processed_by_, topics = case when upstream is null then topics_ end where hop = hop_name;
    return 'changed';
end
$$;

CREATE FUNCTION relaybox.register_stream(hop_name text, stream_name text, origin_ text, order_ text, message_id_window_ bigint, holdback_rows_ bigint, fragments_ bigint) RETURNS text
    LANGUAGE plpgsql
    AS $$
declare
    hint_ constant text := 'What a stream decided keeps its rules for ever. Give the changed route a new name, and no stream of another.';
    log_id integer := (select i.hop_id from relaybox.hop_in i where i.hop = hop_name);
    log relaybox.stream_log;
    known relaybox.stream;
    other text;
begin
    if log_id is null then
        raise exception using errcode = 'RB004', message = format('hop %s does not arrive in this store', hop_name), hint = 'Run: relaybox init';
    end if;
    insert into relaybox.stream (stream, delivery_order, message_id_window, holdback_rows, fragments)
    values (stream_name, order_, message_id_window_, holdback_rows_, fragments_)
    on conflict (stream) do nothing;
    select * into known from relaybox.stream s where s.stream = stream_name for update;
    select * into log from relaybox.stream_log l where l.hop_id = log_id;
    if log.decided_batch > 0 and log.stream_id <> known.stream_id then
        raise exception using errcode = 'RB006', hint = hint_,
            message = format(
                'hop %s was delivered in stream %s here; the file says %s',
                hop_name, (select s.stream from relaybox.stream s where s.stream_id = log.stream_id), stream_name
            );
    end if;
    if log.decided_batch > 0 and log.origin <> origin_ then
        raise exception using errcode = 'RB006', hint = hint_,
            message = format('hop %s was delivered here from origin %s; the file says %s', hop_name, log.origin, origin_);
    end if;
    if known.taken > 0 and (known.delivery_order, known.message_id_window) <> (order_, message_id_window_) then
        raise exception using errcode = 'RB006', hint = hint_,
            message = format(
                'stream %s was delivered here with order %s and message_id_window %s; the file says %s and %s',
                stream_name, known.delivery_order, known.message_id_window, order_, message_id_window_
            );
    end if;
    select i.hop into other
    from relaybox.stream_log l join relaybox.hop_in i using (hop_id)
    where l.stream_id = known.stream_id and l.hop_id <> log_id and order_ <> 'causal'
    order by i.hop limit 1;
    if found then
        raise exception using errcode = 'RB006', hint = hint_,
            message = format('stream %s reads the log of hop %s here; only a causal stream can read that of hop %s too', stream_name, other, hop_name);
    end if;
    if (log.stream_id, log.origin) = (known.stream_id, origin_)
        and (known.delivery_order, known.message_id_window, known.holdback_rows, known.fragments)
        = (order_, message_id_window_, holdback_rows_, fragments_)
    then
        return 'unchanged';
    end if;
    update relaybox.stream s
    set delivery_order = order_, message_id_window = message_id_window_, holdback_rows = holdback_rows_, fragments = fragments_,
        recheck = s.taken > 0
    where s.stream_id = known.stream_id;
    insert into relaybox.stream_log (hop_id, stream_id, origin) values (log_id, known.stream_id, origin_)
    on conflict (hop_id) do update set stream_id = excluded.stream_id, origin = excluded.origin;
    delete from relaybox.stream s
    where s.stream_id = log.stream_id and s.taken = 0
        and not exists (select from relaybox.stream_log l where l.stream_id = s.stream_id)
        and not exists (select from relaybox.skip k where k.stream_id = s.stream_id)
        and not exists (select from relaybox.subscription n where n.stream_id = s.stream_id);
    return case when log.hop_id is null then 'registered' else 'changed' end;
end
$$;

CREATE FUNCTION relaybox.register_topics(stream_name text, topics text[]) RETURNS void
    LANGUAGE sql
    AS $$
    insert into relaybox.stream_topic (stream_id, topic)
    select s.stream_id, t.topic from relaybox.stream s, unnest(topics) as t (topic) where s.stream = stream_name
    on conflict do nothing
$$;

CREATE FUNCTION relaybox.release(subscription text, lane integer DEFAULT 1, worker text DEFAULT NULL::text) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'relaybox', 'pg_temp'
    AS $$
declare
    known relaybox.subscription := relaybox.subscription_named("release".subscription);
    c relaybox.cursor := relaybox.lock_lane(known, "release".lane);
begin
    if c.worker is distinct from relaybox.worker_name("release".worker) then
        return false;
    end if;
    c.worker := null;
    c.leased_until := null;
    c.fetch_count := greatest(0, c.fetch_count - 1);
    perform relaybox.move_cursor(c);
    return true;
end
$$;

CREATE FUNCTION relaybox.release_detached(log_id integer, recorded_by text) RETURNS bigint
    LANGUAGE plpgsql
    SET lock_timeout TO '500ms'
    AS $$
declare
    needed bigint;
    last_ bigint;
    released bigint;
begin
    perform relaybox.require_writable_primary();
    if not exists (select from relaybox.detached_segment d where d.hop_id = log_id and d.state in ('detaching', 'detached')) then
        return 0;
    end if;
    perform from relaybox.hop_in i where i.hop_id = log_id for update;
    perform from relaybox.stream s where s.stream_id = (select l.stream_id from relaybox.stream_log l where l.hop_id = log_id) for update;
    -- a later statement than the locks: who subscribes or replays comes before or after
    select min(h.needs_from) into needed from relaybox.holders(log_id) h;
    with gone as (
        update relaybox.detached_segment d set state = 'released', moved_at = clock_timestamp(), moved_by = recorded_by
        where d.hop_id = log_id and (
            d.state = 'detached' and (d.last >= needed) is not true
            -- whose consumer came back meanwhile; who still writes its files is superseded
            or d.state = 'detaching' and not exists (select from relaybox.detachable_segments(log_id) s where s.first = d.first)
        )
        returning d.last, d.first
    )
    select max(g.last), count(*) into last_, released from gone g
    where g.last < (select i.first_kept_position from relaybox.hop_in i where i.hop_id = log_id);
    update relaybox.stream s set dropped_place = greatest(s.dropped_place, relaybox.last_place_through(s.stream_id, log_id, last_))
    where last_ is not null and s.stream_id = (select l.stream_id from relaybox.stream_log l where l.hop_id = log_id);
    return released;
end
$$;

CREATE FUNCTION relaybox.remember_indexes() RETURNS void
    LANGUAGE plpgsql
    SET work_mem TO '128MB'
    AS $$
declare
    one record;
    next_index bigint;
    covered int8range;
begin
    -- the usual disorder is over when the batch is: no gap is left, nothing to remember but the watermark
    with whole as (
        update relaybox.sender_state s set watermark = j.last_index
        from (
            select j.sender_id, min(j.index) as first_index, max(j.index) as last_index, count(*) as row_count
            from pg_temp.judged j where j.counts group by j.sender_id
        ) j
        where s.sender_id = j.sender_id and s.seen_beyond = 0 and j.first_index = s.watermark + 1
            and j.last_index - j.first_index + 1 = j.row_count
        returning s.sender_id
    )
    insert into pg_temp.remembered select w.sender_id from whole w;
    insert into relaybox.seen as n (sender_id, chunk, indexes, fragments)
    select g.sender_id, g.chunk, g.indexes, (select count(*) from unnest(g.indexes))
    from (
        select j.sender_id, j.index >> 12 as chunk, range_agg(int8range(j.index, j.index + 1)) as indexes
        from pg_temp.judged j
        where j.counts and not exists (select from pg_temp.remembered r where r.sender_id = j.sender_id)
        group by j.sender_id, j.index >> 12
    ) g
    on conflict (sender_id, chunk) do update set
        indexes = n.indexes + excluded.indexes, fragments = (select count(*) from unnest(n.indexes + excluded.indexes));
    for one in
        select s.sender_id, s.watermark from relaybox.sender_state s
        where s.sender_id in (
            select j.sender_id from pg_temp.judged j where j.counts
            except select r.sender_id from pg_temp.remembered r
        )
    loop
        next_index := one.watermark + 1;
        loop
            select r into covered from relaybox.seen n, unnest(n.indexes) r
            where n.sender_id = one.sender_id and n.chunk = next_index >> 12 and r @> next_index;
            exit when not found;
            next_index := upper(covered);
        end loop;
        delete from relaybox.seen n where n.sender_id = one.sender_id and n.chunk < next_index >> 12;
        update relaybox.sender_state s set
            watermark = next_index - 1,
            fragment_count = c.fragments, seen_beyond = c.fragments
        from (
            select coalesce(sum(n.fragments), 0) - coalesce(sum((
                select count(*) from unnest(n.indexes) r where upper(r) <= next_index and n.chunk = next_index >> 12
            )), 0) as fragments
            from relaybox.seen n where n.sender_id = one.sender_id
        ) c
        where s.sender_id = one.sender_id;
    end loop;
end
$$;

CREATE FUNCTION relaybox.remember_senders(log_id integer, seen pg_snapshot, senders jsonb, taken_ bigint) RETURNS integer
    LANGUAGE plpgsql
    AS $$
declare
    log_here relaybox.stream_log;
    other record;
    new_count integer;
begin
    set local synchronous_commit = on;
    select l.* into log_here from relaybox.stream_log l where l.hop_id = log_id;
    if not found then
        raise exception using errcode = 'RB004', message = format('log %s belongs to no stream in this store', log_id), hint = 'Run: relaybox init';
    end if;
    insert into relaybox.sender (origin, sender, epoch, kind, declared_at, declared_by)
    select log_here.origin, s.sender, s.epoch, s.kind, s.declared_at, s.declared_by
    from jsonb_to_recordset(senders) s (sender text, epoch integer, kind text, declared_at timestamptz, declared_by text)
    order by s.sender, s.epoch
    on conflict do nothing;
    get diagnostics new_count = row_count;
    select s.sender, s.epoch, s.kind, here.kind as kind_here into other
    from jsonb_to_recordset(senders) s (sender text, epoch integer, kind text)
    join relaybox.sender here on here.origin = log_here.origin and here.sender = s.sender and here.epoch = s.epoch
    where here.kind <> s.kind
    order by s.sender, s.epoch
    limit 1;
    if found then
        raise exception using errcode = 'RB016',
            message = format(
                'epoch %s of sender %s of %s is %s here and %s at the source', other.epoch, other.sender, log_here.origin, other.kind_here, other.kind
            ),
            hint = format(
                'Store %s lost the declaration and made another. There, delete that row of relaybox.sender, then run: relaybox senders new-epoch %s %s',
                log_here.origin, log_here.origin, other.sender
            );
    end if;
    update relaybox.stream_log l set senders_seen = seen, senders_taken = greatest(l.senders_taken, taken_)
    where l.hop_id = log_id and (l.senders_seen is null or pg_snapshot_xmax(seen) >= pg_snapshot_xmax(l.senders_seen));
    return new_count;
end
$$;

CREATE FUNCTION relaybox.replay(subscription text, start text, reason text, through text DEFAULT NULL::text, own_cursor boolean DEFAULT false, rows_per_second integer DEFAULT NULL::integer, dry_run boolean DEFAULT false, OUT replayed_as text, OUT first_place bigint, OUT last_place bigint, OUT message_count bigint, OUT byte_count bigint, OUT estimated_seconds double precision) RETURNS record
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'relaybox', 'pg_temp'
    AS $$
declare
    known relaybox.subscription := relaybox.subscription_named(replay.subscription);
    lane_ integer;
    c relaybox.cursor;
begin
    perform relaybox.require_reason(reason, 'a replay is asked for', 'replay(subscription, start, ''why'')');
    if known.replay_of is not null or (through is not null and not own_cursor) then
        raise exception using errcode = 'RB036',
            message = case when known.replay_of is null then 'only a replay with a cursor of its own has an end' else 'a replay is not replayed' end,
            hint = case when known.replay_of is null then 'Give own_cursor => true, or no end.' else 'Replay the subscription itself.' end;
    end if;
    perform from relaybox.stream s where s.stream_id = known.stream_id for key share;
    select b.first_place, b.last_place into first_place, last_place from relaybox.places_between(known.stream_id, start, through) b;
    if not own_cursor then
        last_place := null;
        for lane_ in 1..known.lanes loop
            c := relaybox.lock_lane(known, lane_);
            last_place := greatest(last_place, c.done_place);
            if c.done_place >= first_place and not dry_run then
                c.replay_place := greatest(c.replay_place, c.done_place);
                c := relaybox.cursor_at(c, first_place - 1);
                c.rate_from := clock_timestamp();
                perform relaybox.move_cursor(c);
            end if;
        end loop;
        replayed_as := known.subscription;
    end if;
    select r.message_count, r.byte_count, coalesce(r.message_count::double precision / replay.rows_per_second, r.read_seconds)
    into message_count, byte_count, estimated_seconds
    from relaybox.estimate_range(known, first_place, last_place) r;
    if last_place < first_place and not dry_run then
        raise exception using errcode = 'RB036',
            message = format('subscription %s: nothing to replay from place %s; it is done through place %s', known.subscription, first_place, last_place);
    end if;
    if own_cursor then
        replayed_as := format('%s.replay-%s', left(known.subscription, 40), 1 + (
            select count(*) from relaybox.subscription s where s.replay_of = known.subscription_id
        ));
    end if;
    if dry_run then
        return;
    end if;
    if own_cursor then
        perform relaybox.open_replay(known, replayed_as, first_place, last_place, replay.rows_per_second);
    else
        update relaybox.subscription s set rows_per_second = replay.rows_per_second where s.subscription_id = known.subscription_id;
    end if;
    perform relaybox.record_action(known.subscription, 'replay', reason, jsonb_build_object(
        'as', replayed_as, 'start', start, 'first_place', first_place, 'last_place', last_place, 'rows_per_second', replay.rows_per_second
    ));
end
$$;

CREATE FUNCTION relaybox.replay_progress(replay_ bigint) RETURNS TABLE(replayed_as text, first_place bigint, last_place bigint, done_place bigint, leased_lanes bigint, moved_at timestamp with time zone, is_done boolean, is_cancelled boolean)
    LANGUAGE sql STABLE
    AS $$
    select
        s.subscription, r.first_place, r.last_place,
        case when r.done_at is not null then r.last_place else least(greatest(lanes.done_place, r.first_place - 1), r.last_place) end,
        coalesce(lanes.leased_lanes, 0), lanes.moved_at,
        r.done_at is not null or coalesce(lanes.done_place >= r.last_place, false),
        r.done_at is null and s.ended_at is not null
    from relaybox.replay_range r
    join relaybox.subscription s on s.subscription_id = r.subscription_id
    left join lateral (
        select
            min(c.done_place) as done_place, max(c.moved_at) as moved_at,
            count(*) filter (where c.leased_until > clock_timestamp()) as leased_lanes
        from relaybox.lane_cursors c
        where c.subscription_id = r.subscription_id
    ) lanes on true
    where r.replay_range_id = replay_
$$;

CREATE FUNCTION relaybox.replayed_through(cursor_id integer) RETURNS bigint
    LANGUAGE sql STABLE
    AS $$
    select min(c.done_place) from relaybox.lane_cursors c where c.subscription_id = cursor_id
$$;

CREATE FUNCTION relaybox.require_fetched(c relaybox.cursor, known relaybox.subscription, place_ bigint, worker_ text) RETURNS void
    LANGUAGE plpgsql STABLE
    AS $$
begin
    if c.worker <> worker_ then
        raise exception using errcode = 'RB035',
            message = format(
                'subscription %s, lane %s: worker %s has lost the lane, worker %s fetched after the lease had ended',
                known.subscription, c.lane, worker_, c.worker
            ),
            hint = 'Roll back and fetch again. Longer work needs a longer lease_seconds, or smaller fetches.';
    end if;
    if c.worker is null or place_ is null or place_ > coalesce(c.redrive_place, c.fetched_place) or (c.redrive_place is null and place_ <= c.done_place) then
        raise exception using errcode = 'RB033',
            message = format(
                'subscription %s, lane %s: place %s is not among what worker %s has fetched and not acknowledged: %s',
                known.subscription, c.lane, coalesce(place_::text, 'null'), worker_,
                case
                    when c.worker is null then format('nothing; the lane is done through place %s', c.done_place)
                    when c.redrive_place is not null then format('redriven dead letters up to place %s', c.redrive_place)
                    else format('places %s to %s', c.done_place + 1, c.fetched_place)
                end
            ),
            hint = 'Fetch first, acknowledge what came. An acknowledgement that is repeated is refused, so that its work is not done twice.';
    end if;
end
$$;

CREATE FUNCTION relaybox.require_reason(reason text, said text, hint_ text) RETURNS void
    LANGUAGE plpgsql STABLE
    AS $$
begin
    if coalesce(btrim(reason), '') = '' then
        raise exception using errcode = 'RB036', message = said || ' with a reason', hint = hint_;
    end if;
end
$$;

CREATE FUNCTION relaybox.require_sender_kind(sender_ text, kind_ text) RETURNS void
    LANGUAGE plpgsql IMMUTABLE
    AS $_$
begin
    if kind_ = 'assigned' then
        raise exception using errcode = 'RB021',
            message = format('sender %s: assigned is not declared, it is what every undeclared sender is', sender_),
            hint = 'Insert its messages without an index; they are numbered by their position in the first log.';
    end if;
    if kind_ is null or kind_ not in ('gapless', 'sparse') then
        raise exception using errcode = 'RB021',
            message = format('sender %s: there is no kind %s', sender_, coalesce(kind_, 'null')),
            hint = 'Known: gapless (1, 2, 3 ... each once), sparse (any order, repeats possible).';
    end if;
    if sender_ is null or sender_ !~ '^[A-Za-z0-9_.:-]{1,48}$' then
        raise exception using errcode = 'RB021',
            message = format('%s is no name of a sender', coalesce(quote_literal(left(sender_, 60)), 'null')),
            hint = 'A sender is 1 to 48 of A-Z a-z 0-9 _ . : -';
    end if;
end
$_$;

CREATE FUNCTION relaybox.require_sender_role(sender_ text) RETURNS void
    LANGUAGE plpgsql STABLE
    AS $$
declare
    caller name := coalesce(nullif(current_setting('role'), 'none'), session_user);
begin
    if exists (
        select from pg_class o
        where o.oid = 'relaybox.outbox'::regclass and o.relrowsecurity and not pg_has_role(caller, o.relowner, 'usage')
            and not exists (
                select from relaybox.sender_role b
                join pg_roles r on r.rolname = b.role_name
                where b.sender = sender_ and pg_has_role(caller, r.oid, 'usage')
            )
    ) then
        raise exception using errcode = 'RB023',
            message = format('role %s may not speak for sender %s', caller, sender_),
            hint = format('This store binds senders to roles. An administrator runs: relaybox senders bind STORE %s %s', sender_, caller);
    end if;
end
$$;

CREATE FUNCTION relaybox.require_writable_primary() RETURNS void
    LANGUAGE plpgsql
    AS $$
begin
    if pg_is_in_recovery() then
        raise exception using errcode = 'RB001',
            message = 'this server is a standby; Relaybox needs the primary',
            hint = 'Point the libpq service of this store to the primary.';
    end if;
    if current_setting('fsync') <> 'on' or current_setting('full_page_writes') <> 'on' then
        raise exception using errcode = 'RB003',
            message = format('fsync is %s and full_page_writes is %s; both must be on', current_setting('fsync'), current_setting('full_page_writes')),
            hint = 'Set both to on in postgresql.conf and reload. With them off a crash loses confirmed messages.';
    end if;
    if current_setting('server_encoding') <> 'UTF8' then
        raise exception using errcode = 'RB003',
            message = format('the database encoding is %s; it must be UTF8', current_setting('server_encoding')),
            hint = 'Create the database with encoding UTF8 and load the data into it.';
    end if;
end
$$;

CREATE FUNCTION relaybox.resolved_position(log_id integer) RETURNS bigint
    LANGUAGE sql STABLE
    AS $$
    select least(
        l.decided_position,
        (select min(h.position) - 1 from relaybox.held h where h.hop_id = log_id),
        (
            select min(s.stalled_after) from relaybox.sender_state s
            where s.stream_id = l.stream_id and s.origin = l.origin and s.stalled_after is not null
        )
    )
    from relaybox.stream_log l
    where l.hop_id = log_id
$$;

CREATE FUNCTION relaybox.restore_cursor(subscription text, lane_ integer, done_place_ bigint) RETURNS void
    LANGUAGE plpgsql
    AS $$
declare
    known relaybox.subscription := relaybox.subscription_named(restore_cursor.subscription);
    c relaybox.cursor := relaybox.lock_lane(known, lane_);
begin
    if c.version > 1 or done_place_ < c.done_place then
        raise exception using errcode = 'RB036',
            message = format('subscription %s, lane %s has moved since it was made; it is done through place %s', known.subscription, lane_, c.done_place);
    end if;
    if done_place_ > c.done_place then
        c.done_place := done_place_;
        c.fetched_place := done_place_;
        perform relaybox.move_cursor(c);
    end if;
end
$$;

CREATE FUNCTION relaybox.retire_hop(hop_name text, reason text, recorded_by text) RETURNS boolean
    LANGUAGE plpgsql
    AS $$
declare
    known relaybox.hop_out;
begin
    perform relaybox.require_writable_primary();
    set local synchronous_commit = on;
    select * into known from relaybox.hop_out h where h.hop = hop_name for update;
    if not found then
        raise exception using errcode = 'RB004', message = format('hop %s does not leave this store', hop_name), hint = 'Run: relaybox retire';
    end if;
    if known.retired_at is not null then
        return false;
    end if;
    update relaybox.hop_out h
    set retired_at = clock_timestamp(), retired_by = recorded_by, retired_reason = reason,
        given_up = case when h.reads_log is null then pg_current_snapshot() end
    where h.hop = hop_name;
    return true;
end
$$;

CREATE FUNCTION relaybox.scan_lane(known relaybox.subscription, lane_ integer, after_place bigint, bound_place bigint, max_count bigint, OUT through_place bigint, OUT row_count bigint) RETURNS record
    LANGUAGE plpgsql STABLE
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    AS $$
declare
    excluded bigint[] := relaybox.set_aside_places(known, after_place, bound_place);
    run record;
    first bigint;
    last bigint;
    found_here bigint;
    last_here bigint;
begin
    through_place := greatest(after_place, bound_place);
    row_count := 0;
    if known.lanes = 1 and known.topic is null and excluded = '{}' then
        through_place := greatest(after_place, least(bound_place, after_place + max_count));
        row_count := through_place - after_place;
        return;
    end if;
    for run in
        select d.first_place, d.last_place, d.hop_id, d.first_position, d.positions
        from relaybox.delivery d
        where d.stream_id = known.stream_id and d.last_place > after_place
        order by d.last_place
    loop
        exit when run.first_place > bound_place;
        first := greatest(run.first_place, after_place + 1) - run.first_place;
        last := least(run.last_place, bound_place) - run.first_place;
        if run.positions is null then
            select count(*), max(lane_row.place) into found_here, last_here from (
                select run.first_place + l.position - run.first_position as place
                from relaybox.log l
                where l.hop_id = run.hop_id and l.position >= run.first_position + first and l.position <= run.first_position + last
                    and (known.topic is null or l.topic = known.topic)
                    and (known.lanes = 1 or relaybox.lane_of(known.lane_by, known.lanes, l.sender, l.key) = lane_)
                    and run.first_place + l.position - run.first_position <> all(excluded)
                order by l.position
                limit max_count - row_count
            ) lane_row;
        else
            select count(*), max(lane_row.place) into found_here, last_here from (
                select run.first_place + first + u.n - 1 as place
                from unnest(run.positions[first + 1:last + 1]) with ordinality u (wanted, n)
                join relaybox.log l on l.hop_id = run.hop_id and l.position = u.wanted
                where (known.topic is null or l.topic = known.topic)
                    and (known.lanes = 1 or relaybox.lane_of(known.lane_by, known.lanes, l.sender, l.key) = lane_)
                    and run.first_place + first + u.n - 1 <> all(excluded)
                order by u.n
                limit max_count - row_count
            ) lane_row;
        end if;
        row_count := row_count + found_here;
        through_place := case when found_here > 0 then last_here else through_place end;
        exit when row_count >= max_count;
    end loop;
end
$$;

CREATE FUNCTION relaybox.segments() RETURNS TABLE(hop_id integer, segment regclass, first bigint, last bigint)
    LANGUAGE sql STABLE
    AS $_$
    select p.hop_id, c.oid::regclass, bounds.ends[1]::bigint, bounds.ends[2]::bigint - 1
    from (
        select null::integer as hop_id, 'relaybox.outbox'::regclass as parent
        union all
        select i.hop_id, to_regclass(format('relaybox.log_%s', i.hop_id)) from relaybox.hop_in i
    ) p
    join pg_inherits n on n.inhparent = p.parent
    join pg_class c on c.oid = n.inhrelid
    cross join lateral regexp_match(pg_get_expr(c.relpartbound, c.oid), $re$FROM \('?(\d+)'?\) TO \('?(\d+)'?\)$re$) bounds (ends)
    where bounds.ends is not null
    order by p.hop_id nulls first, bounds.ends[1]::bigint
$_$;

CREATE FUNCTION relaybox.sender_epoch(sender text) RETURNS integer
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'relaybox', 'pg_temp'
    AS $$
declare
    newest integer := (select c.epoch from relaybox.sender_counter c where c.sender = sender_epoch.sender);
begin
    if newest is null then
        raise exception using errcode = 'RB022',
            message = format('sender %s is not declared in this store', sender_epoch.sender),
            hint = format('Declare it: select relaybox.declare_sender(%L, ''gapless'')', sender_epoch.sender);
    end if;
    return newest;
end
$$;

CREATE FUNCTION relaybox.sender_gap(stream_name text, sender_ text) RETURNS TABLE(epoch integer, origin text, delivered_through bigint, first_held bigint, skipped jsonb)
    LANGUAGE sql STABLE
    AS $$
    select
        s.epoch, s.origin, s.watermark, (select min(h.index) from relaybox.held h where h.sender_id = s.sender_id),
        coalesce((
            select jsonb_agg(jsonb_build_array(k.first_index, k.last_index) order by k.first_index)
            from relaybox.skip k where k.stream_id = s.stream_id and k.sender = s.sender and k.epoch = s.epoch
        ), '[]')
    from relaybox.stream t
    join relaybox.sender_state s on s.stream_id = t.stream_id
    where t.stream = stream_name and s.sender = sender_
    order by s.epoch desc limit 1
$$;

CREATE FUNCTION relaybox.senders_since(origin_ text, seen pg_snapshot, OUT through pg_snapshot, OUT senders jsonb) RETURNS record
    LANGUAGE sql STABLE
    AS $$
    select
        pg_current_snapshot(),
        coalesce(jsonb_agg(jsonb_build_object(
            'sender', s.sender, 'epoch', s.epoch, 'kind', s.kind, 'declared_at', s.declared_at, 'declared_by', s.declared_by
        ) order by s.sender, s.epoch), '[]')
    from relaybox.sender s
    where s.origin = origin_ and (seen is null or s.xid >= pg_snapshot_xmin(seen) and not pg_visible_in_snapshot(s.xid, seen))
$$;

CREATE FUNCTION relaybox.sending_state(hop_name text) RETURNS TABLE(planned_batch bigint, planned_position bigint, planned_rows bigint, planned_slices integer, planned_at timestamp with time zone, received_batch bigint, received_position bigint, processed_position bigint, settled_position bigint, waiting_count bigint, oldest_sent_at timestamp with time zone, oldest_seconds double precision, driven boolean, moved_by text, application text)
    LANGUAGE sql STABLE
    SET enable_seqscan TO 'off'
    AS $$
    select
        h.batch, h.position, newest.row_count, jsonb_array_length(newest.slices), newest.planned_at,
        coalesce(received.through_batch, 0), coalesce(received.through_position, 0),
        case when h.processed_by is not null then coalesce(processed.through_position, 0) end, coalesce(settled.through_position, 0),
        waiting.row_count, oldest.sent_at,
        greatest(extract(epoch from clock_timestamp() - oldest.sent_at), 0)::double precision,
        relaybox.hop_is_driven(h.hop), attempt.recorded_by, attempt.application
    from relaybox.hop_out h
    left join relaybox.batch newest on newest.hop = h.hop and newest.batch = h.batch
    left join lateral (
        select a.recorded_by, a.application from relaybox.attempt a
        where a.hop = h.hop and a.batch = h.batch order by a.attempt desc limit 1
    ) attempt on true
    left join lateral relaybox.newest_confirmation(h.hop, 'received') received on true
    left join lateral relaybox.newest_confirmation(h.hop, 'processed') processed on true
    left join lateral relaybox.newest_confirmation(h.hop, 'settled') settled on true
    cross join lateral (
        select coalesce(sum(w.row_count), 0)::bigint as row_count, min(w.first_read) as first_read
        from (
            select o.row_count, o.first_seq as first_read from relaybox.outbox_waiting(h.hop) o
            union all
            select i.published_position - coalesce(newest.reads_through, 0), coalesce(newest.reads_through, 0) + 1
            from relaybox.hop_in i
            where i.hop_id = h.reads_log and i.published_position > coalesce(newest.reads_through, 0)
        ) w
    ) waiting
    left join lateral (
        select case when h.batch > coalesce(received.through_batch, 0) then (newest.slices -> 0 ->> 1)::bigint else waiting.first_read end as first_read
    ) unreceived on true
    left join lateral (
        select o.sent_at from relaybox.outbox o where h.reads_log is null and o.seq = unreceived.first_read
        union all
        select l.sent_at from relaybox.log l where l.hop_id = h.reads_log and l.position = unreceived.first_read
    ) oldest on true
    where h.hop = hop_name
$$;

CREATE FUNCTION relaybox.set_aside(c relaybox.cursor, known relaybox.subscription, place_ bigint, reason_ text, detail_ text, attempts_ integer, worker_ text) RETURNS void
    LANGUAGE plpgsql
    AS $$
declare
    refused record;
begin
    select m.hop_id, m.position, m.sender into refused from relaybox.message_at(known.stream_id, place_) m;
    insert into relaybox.dead_letter as d (
        stream_id, hop_id, "position", reason, detail, subscription_id, lane, place, sender, attempts, last_by, first_at
    )
    values (
        known.stream_id, refused.hop_id, refused.position, reason_, detail_, known.subscription_id, c.lane, place_, refused.sender, attempts_, worker_,
        coalesce((
            select f.first_at from relaybox.failed_attempt f
            where f.subscription_id = known.subscription_id and f.lane = c.lane and f.place = place_
        ), clock_timestamp())
    )
    on conflict (subscription_id, place) do update
    set state = 'open', reason = excluded.reason, detail = excluded.detail, attempts = d.attempts + excluded.attempts,
        last_at = clock_timestamp(), last_by = excluded.last_by, settled_at = null, settled_by = null, settled_reason = null;
    delete from relaybox.failed_attempt f where f.subscription_id = known.subscription_id and f.lane = c.lane and f.place = place_;
    if known.hold_sender then
        update relaybox.dead_letter d set state = 'open'
        where d.subscription_id = known.subscription_id and d.lane = c.lane and d.sender = refused.sender
            and d.state = 'redriving' and d.place > place_;
        perform relaybox.hold_back(known, c.lane, greatest(place_, c.done_place), c.fetched_place);
    end if;
end
$$;

CREATE FUNCTION relaybox.set_aside_circles() RETURNS boolean
    LANGUAGE plpgsql
    AS $$
declare
    changed bigint;
    found_any boolean := false;
begin
    insert into pg_temp.wait (taken, for_taken, by_clock) select w.taken, w.for_taken, w.by_clock from relaybox.waits_at_once() w;
    loop
        -- whoever waits for nobody, and whom nobody waits for, is in no circle
        delete from pg_temp.wait w
        where not exists (select from pg_temp.wait o where o.taken = w.for_taken)
            or not exists (select from pg_temp.wait o where o.for_taken = w.taken);
        get diagnostics changed = row_count;
        continue when changed > 0;
        exit when not exists (select from pg_temp.wait);
        -- reaches: the last of all messages that one waits for, directly or not; whom that one waits for in turn is in its circle
        insert into pg_temp.circle (taken, reaches) select distinct w.taken, w.taken from pg_temp.wait w;
        loop
            update pg_temp.circle c set reaches = n.reaches
            from (
                select w.taken, max(o.reaches) as reaches from pg_temp.wait w join pg_temp.circle o on o.taken = w.for_taken group by w.taken
            ) n
            where n.taken = c.taken and n.reaches > c.reaches;
            get diagnostics changed = row_count;
            exit when changed = 0;
        end loop;
        with recursive member as (
            select c.taken, c.reaches from pg_temp.circle c where c.taken = c.reaches
            union
            select w.for_taken, m.reaches
            from member m
            join pg_temp.wait w on w.taken = m.taken
            join pg_temp.circle c on c.taken = w.for_taken and c.reaches = m.reaches
        )
        delete from pg_temp.circle c where not exists (select from member m where m.taken = c.taken);
        update pg_temp.judged j set verdict = 'clock_waits_for_itself'
        where j.counts and j.taken in (
            select w.taken
            from pg_temp.wait w
            join pg_temp.circle c on c.taken = w.taken
            join pg_temp.circle o on o.taken = w.for_taken and o.reaches = c.reaches
            where w.by_clock
        );
        found_any := found_any or found;
        delete from pg_temp.wait w using pg_temp.circle c where c.taken in (w.taken, w.for_taken);
        delete from pg_temp.circle;
    end loop;
    delete from pg_temp.cause c using pg_temp.judged j where j.verdict = 'clock_waits_for_itself' and j.taken = c.taken;
    return found_any;
end
$$;

CREATE FUNCTION relaybox.set_aside_judged(here relaybox.stream) RETURNS void
    LANGUAGE sql
    AS $$
    insert into relaybox.dead_letter (stream_id, hop_id, "position", reason)
    select here.stream_id, j.hop_id, j.position, j.verdict from pg_temp.judged j
    where j.verdict is not null and j.verdict <> 'duplicate'
$$;

CREATE FUNCTION relaybox.set_aside_places(known relaybox.subscription, after_place bigint, bound_place bigint) RETURNS bigint[]
    LANGUAGE sql STABLE
    AS $$
    select array(
        select d.place from relaybox.dead_letter d
        where d.subscription_id in (known.subscription_id, known.replay_of)
            and d.place > after_place and d.place <= bound_place and d.state <> 'redriven'
    )
$$;

CREATE FUNCTION relaybox.settle_senders(here relaybox.stream, log_id integer, first_position_ bigint, last_position_ bigint) RETURNS void
    LANGUAGE plpgsql
    SET work_mem TO '128MB'
    SET jit TO 'off'
    AS $$
declare
    waits_for_earlier boolean := here.delivery_order in ('fifo', 'causal');
    sender relaybox.sender_state;
begin
    -- senders in order: the watermark moves over the batch
    update relaybox.sender_state s set
        watermark = b.last_index, begun_at = coalesce(s.begun_at, here.taken + 1), moved_at = clock_timestamp(),
        range_first_index = coalesce(s.range_first_index, b.first_index), range_last_index = b.last_index,
        range_first_position = coalesce(s.range_first_position, first_position_), range_last_position = last_position_
    from pg_temp.batch_sender b
    where b.in_order and b.epoch > 0 and s.sender_id = b.sender_id;
    -- senders that were looked at
    update relaybox.sender_state s set
        begun_at = coalesce(s.begun_at, j.begun_at), moved_at = clock_timestamp(),
        watermark = case when waits_for_earlier then greatest(s.watermark, j.last_done) else s.watermark end,
        range_first_index = least(s.range_first_index, j.first_index), range_last_index = greatest(s.range_last_index, j.last_index),
        range_first_position = least(s.range_first_position, j.first_position),
        range_last_position = greatest(s.range_last_position, j.last_position),
        -- set aside before its turn: its turn must not be waited for
        skipped = s.skipped + coalesce(j.done_early, '{}')
    from (
        select j.sender_id, min(j.taken) as begun_at, max(j.index) filter (where j.t is not null) as last_done,
            min(j.index) as first_index, max(j.index) as last_index, min(j.position) as first_position, max(j.position) as last_position,
            range_agg(int8range(j.index, j.index + 1)) filter (where j.t is null and j.verdict is not null) as done_early
        from pg_temp.judged j where j.counts group by j.sender_id
    ) j
    where s.sender_id = j.sender_id;
    if not waits_for_earlier then
        perform relaybox.remember_indexes();
    end if;
    delete from relaybox.held h using pg_temp.judged j
    where not j.is_new and (j.t is not null or j.verdict is not null) and h.hop_id = j.hop_id and h.position = j.position;
    insert into relaybox.held (hop_id, "position", stream_id, sender_id, index, taken)
    select j.hop_id, j.position, here.stream_id, j.sender_id, j.index, j.taken
    from pg_temp.judged j where j.is_new and j.t is null and j.verdict is null;
    -- what operators gave up
    update relaybox.sender_state s set watermark = upper(r.r) - 1
    from (select t.sender_id, r from relaybox.sender_state t, unnest(t.skipped) r where t.stream_id = here.stream_id) r
    where s.sender_id = r.sender_id and r.r @> s.watermark + 1;
    -- nobody can repeat what a fenced epoch sent: its messages are refused unseen
    delete from relaybox.seen n using pg_temp.fence f where n.sender_id = f.sender_id;
    delete from relaybox.index_range n using pg_temp.fence f where n.sender_id = f.sender_id;
    update relaybox.sender_state s set fragment_count = 0, seen_beyond = 0, range_first_index = null, range_last_index = null,
        range_first_position = null, range_last_position = null
    from pg_temp.fence f where s.sender_id = f.sender_id;
    with old as (
        update relaybox.sender_state s set range_first_index = null, range_last_index = null, range_first_position = null, range_last_position = null
        from (
            select * from relaybox.sender_state o
            where o.stream_id = here.stream_id and o.range_last_position - o.range_first_position >= 100000
        ) o
        where s.sender_id = o.sender_id
        returning o.sender_id, o.range_first_index, o.range_last_index, o.range_first_position, o.range_last_position
    )
    insert into relaybox.index_range (sender_id, first_index, last_index, first_position, last_position) select * from old;
    update relaybox.sender_state s set
        held_count = h.held_count,
        stalled_after = case when h.reason is not null then last_position_ end, stalled_reason = h.reason,
        stalled_watermark = case when h.reason is not null then s.watermark end
    from (
        select t.sender_id, count(h.position) as held_count,
            case
                when count(h.position) >= here.holdback_rows then 'holdback_full'
                when t.fragment_count > here.fragments then 'set_full'
            end as reason
        from relaybox.sender_state t left join relaybox.held h on h.sender_id = t.sender_id
        where t.stream_id = here.stream_id and t.stalled_after is null
            and (t.sender_id in (select j.sender_id from pg_temp.judged j))
        group by t.sender_id
    ) h
    where s.sender_id = h.sender_id;
end
$$;

CREATE FUNCTION relaybox.settled_reading(hop_name text, OUT through_position bigint, OUT happened_at timestamp with time zone) RETURNS record
    LANGUAGE sql STABLE
    AS $$
    select coalesce(b.reads_through, 0), c.happened_at
    from relaybox.hop_out h
    left join lateral relaybox.newest_confirmation(h.hop, 'settled') c on true
    left join relaybox.batch b on b.hop = h.hop and b.last_position = c.through_position
    where h.hop = hop_name
$$;

CREATE FUNCTION relaybox.signals() RETURNS TABLE(metric text, labels jsonb, value double precision)
    LANGUAGE sql STABLE
    AS $$
    with
    leaving as (
        select h.hop, h.batch, h.reads_log, h.position as planned_position, h.stopped_consumer, received.through_position as received_position, settled.through_position as settled_position,
            unreceived.planned_at as unreceived_since, unsettled.recorded_at as unsettled_since, settled.recorded_at as settled_at,
            greatest(newest.planned_at, received.recorded_at) as progress_at
        from relaybox.hop_out h
        left join relaybox.batch newest on newest.hop = h.hop and newest.batch = h.batch
        left join lateral relaybox.newest_confirmation(h.hop, 'received') received on true
        left join lateral relaybox.newest_confirmation(h.hop, 'settled') settled on true
        left join lateral (
            select b.planned_at from relaybox.batch b
            where b.hop = h.hop and b.batch > coalesce(received.through_batch, 0) order by b.batch limit 1
        ) unreceived on true
        left join lateral relaybox.confirmation_of(h.hop, 'received', coalesce(settled.through_position, 0) + 1) unsettled on true
        where h.retired_at is null
    ),
    arriving as (
        select s.stream, i.hop, undecided.published_at as undecided_since, l.decided_at
        from relaybox.stream_log sl
        join relaybox.stream s on s.stream_id = sl.stream_id
        join relaybox.hop_in i on i.hop_id = sl.hop_id
        left join lateral (
            select a.published_at from relaybox.arrival a
            where a.hop_id = sl.hop_id and a.batch > sl.decided_batch order by a.batch limit 1
        ) undecided on true
        left join lateral (
            select d.decided_at from relaybox.decision d where d.hop_id = sl.hop_id order by d.batch desc limit 1
        ) l on true
    ),
    subscribed as (
        select u.subscription, s.stream, s.stream_id, sum(g.places_behind) as behind, max(g.places_behind) as furthest_behind,
            max(
                case when g.places_behind > 0
                    then extract(epoch from now() - greatest(g.waiting_since, (
                        select max(c.moved_at) from relaybox.cursor c
                        where c.subscription_id = u.subscription_id and c.lane = g.lane and c.done_place = g.done_place
                    )))
                end
            ) as waiting_seconds
        from relaybox.subscription u
        join relaybox.stream s on s.stream_id = u.stream_id
        cross join lateral relaybox.lag(u.subscription) g
        where u.ended_at is null
        group by u.subscription, s.stream, s.stream_id
    ),
    -- who keeps whole segments although his route does not want it in silence
    keeping as (
        select 'hop' as kind, l.hop as holder,
            coalesce(i.published_position, l.planned_position) - coalesce(l.settled_position, 0) as behind,
            least(l.unsettled_since, l.unreceived_since, (
                select a.published_at from relaybox.arrival a
                where a.hop_id = l.reads_log and a.last_position > coalesce(l.settled_position, 0) order by a.batch limit 1
            )) as since
        from leaving l left join relaybox.hop_in i on i.hop_id = l.reads_log
        where l.stopped_consumer = 'alarm'
        union all
        select 'subscription', s.subscription, s.furthest_behind, now() - make_interval(secs => s.waiting_seconds::double precision)
        from subscribed s
        where exists (
            select from relaybox.stream_log l join relaybox.hop_in i on i.hop_id = l.hop_id
            where l.stream_id = s.stream_id and i.stopped_consumer = 'alarm'
        )
        union all
        -- whom detaching should have relieved, had it run: of what is older than the window, and here
        select 'subscription', s.subscription, old.last_place - greatest(t.last_place - s.furthest_behind, t.first_kept_place - 1),
            now() - make_interval(secs => s.waiting_seconds::double precision) + make_interval(secs => old.after_seconds)
        from subscribed s
        join relaybox.stream t on t.stream_id = s.stream_id
        cross join lateral (
            select max(i.detach_after_seconds) as after_seconds, coalesce(max((
                select k.last_place from relaybox.decision k
                where k.hop_id = i.hop_id and k.decided_at <= now() - make_interval(secs => i.replay_window_seconds)
                order by k.decided_at desc limit 1
            )), 0) as last_place
            from relaybox.stream_log l join relaybox.hop_in i on i.hop_id = l.hop_id
            where l.stream_id = s.stream_id
            having bool_and(i.stopped_consumer = 'detach')
        ) old
    ),
    ages as (
        select 'received' as watermark, jsonb_build_object('hop', hop) as at_, unreceived_since as since from leaving
        union all
        select 'settled', jsonb_build_object('hop', hop), case when unsettled_since is not null then greatest(unsettled_since, settled_at) end
        from leaving
        union all
        select 'delivered', jsonb_build_object('hop', hop, 'stream', stream),
            case when undecided_since is not null then greatest(undecided_since, decided_at) end
        from arriving
        union all
        select 'sender', jsonb_build_object('stream', s.stream), min(h.held_at)
        from relaybox.stream s left join relaybox.held h on h.stream_id = s.stream_id
        group by s.stream
    )
    select 'relaybox_watermark_age_seconds', at_ || jsonb_build_object('watermark', watermark),
        coalesce(greatest(extract(epoch from now() - since), 0), 0)::double precision
    from ages
    union all
    select 'relaybox_watermark_age_seconds', jsonb_build_object('watermark', 'acknowledged', 'stream', stream, 'subscription', subscription),
        coalesce(greatest(waiting_seconds, 0), 0)
    from subscribed
    union all
    select 'relaybox_subscription_behind_messages', jsonb_build_object('stream', stream, 'subscription', subscription), behind from subscribed
    union all
    select 'relaybox_hop_unsettled_messages', jsonb_build_object('hop', hop),
        coalesce(received_position, 0) - coalesce(settled_position, 0)
    from leaving
    union all
    select 'relaybox_hop_progress_timestamp_seconds', jsonb_build_object('hop', hop), extract(epoch from progress_at)
    from leaving where progress_at is not null
    union all
    select 'relaybox_stream_delivered_messages_total', jsonb_build_object('stream', stream), last_place from relaybox.stream
    union all
    select 'relaybox_stream_duplicates_total', jsonb_build_object('stream', s.stream), coalesce(sum(l.compacted_duplicates + (
        select coalesce(sum(d.duplicate_count), 0) from relaybox.decision d where d.hop_id = l.hop_id
    )), 0)
    from relaybox.stream s
    left join relaybox.stream_log l on l.stream_id = s.stream_id
    group by s.stream
    union all
    select 'relaybox_stream_held_messages', jsonb_build_object('stream', s.stream),
        (select count(*) from relaybox.held h where h.stream_id = s.stream_id)
    from relaybox.stream s
    union all
    select 'relaybox_stream_stalled_senders', jsonb_build_object('stream', s.stream),
        (select count(*) from relaybox.sender_state e where e.stream_id = s.stream_id and e.stalled_after is not null)
    from relaybox.stream s
    union all
    select 'relaybox_dead_letters', jsonb_build_object('stream', s.stream),
        (select count(*) from relaybox.dead_letter d where d.stream_id = s.stream_id and d.state in ('open', 'redriving'))
    from relaybox.stream s
    union all
    select 'relaybox_retention_held_seconds', jsonb_build_object('kind', k.kind, 'holder', k.holder),
        case when k.behind >= s.segment_rows then coalesce(greatest(extract(epoch from now() - k.since), 0), 0) else 0 end
    from keeping k cross join relaybox.store s
    union all
    select 'relaybox_detached_messages', jsonb_build_object('hop', i.hop), coalesce(sum(d.row_count), 0)::double precision
    from relaybox.hop_in i left join relaybox.detached_segment d on d.hop_id = i.hop_id and d.state = 'detached'
    group by i.hop
    union all
    select 'relaybox_retention_segments', jsonb_build_object('table', coalesce(i.hop, 'outbox')), count(*)
    from relaybox.segments() g left join relaybox.hop_in i on i.hop_id = g.hop_id
    group by i.hop
    union all
    select 'relaybox_retention_first_kept', '{"table": "outbox"}', first_kept_seq from relaybox.store
    union all
    select 'relaybox_retention_first_kept', jsonb_build_object('table', hop), first_kept_position from relaybox.hop_in
    union all
    select 'relaybox_store_oldest_transaction_seconds', '{}',
        coalesce(greatest(max(extract(epoch from now() - a.xact_start)), 0), 0)
    from pg_stat_activity a
    where a.datname = current_database() and a.backend_xid is not null and a.pid <> pg_backend_pid()
    union all
    select 'relaybox_store_bytes', jsonb_build_object('part', t.part), sum(pg_total_relation_size(t.oid))
    from (
        select c.oid,
            case when c.relname like 'outbox%' then 'outbox' when c.relname like 'log%' then 'logs'
                when c.relname in ('batch', 'attempt', 'receipt', 'arrival', 'confirmation', 'decision', 'delivery') then 'ledgers' else 'rest' end as part
        from pg_class c where c.relnamespace = 'relaybox'::regnamespace and c.relkind = 'r'
    ) t
    group by t.part
$$;

CREATE FUNCTION relaybox.skip_empty_pair(hop_name text, upper_ pg_snapshot) RETURNS void
    LANGUAGE sql
    AS $$
    update relaybox.hop_out set lower = upper_ where hop = hop_name
$$;

CREATE FUNCTION relaybox.skip_gap(stream_name text, sender_ text, last_index_ bigint, reason_ text, skipped_by_ text, OUT epoch integer, OUT first_index bigint, OUT last_index bigint, OUT released bigint) RETURNS record
    LANGUAGE plpgsql
    AS $$
declare
    here relaybox.stream;
    input relaybox.stream_log;
    state relaybox.sender_state;
    first_held bigint;
begin
    perform relaybox.require_writable_primary();
    set local synchronous_commit = on;
    select s.* into here from relaybox.stream s where s.stream = stream_name for update;
    if not found then
        raise exception using errcode = 'RB004', message = format('stream %s is not delivered in this store', stream_name),
            hint = 'Known here: ' || coalesce((select string_agg(s.stream, ', ' order by s.stream) from relaybox.stream s), 'none') || '.';
    end if;
    -- a sender of which nothing has come: others may wait for its first messages
    insert into relaybox.sender_state (stream_id, sender, epoch, origin, kind)
    select here.stream_id, d.sender, d.epoch, d.origin, d.kind
    from relaybox.sender d join relaybox.stream_log l on l.stream_id = here.stream_id and l.origin = d.origin
    where d.sender = sender_ and not exists (
        select from relaybox.sender_state s where s.stream_id = here.stream_id and s.sender = sender_
    )
    order by d.epoch desc limit 1;
    select s.* into state from relaybox.sender_state s
    where s.stream_id = here.stream_id and s.sender = sender_ order by s.begun_at is not null desc, s.epoch desc limit 1;
    if not found then
        raise exception using errcode = 'RB017', message = format('stream %s has nothing with an index of its own from sender %s', stream_name, sender_),
            hint = 'Skip only what is missing: see relaybox holdback.';
    end if;
    select min(h.index) into first_held from relaybox.held h where h.sender_id = state.sender_id;
    epoch := state.epoch;
    first_index := state.watermark + 1;
    last_index := coalesce(last_index_, first_held - 1);
    if state.kind <> 'gapless' or here.delivery_order not in ('fifo', 'causal')
        or last_index is null or last_index < first_index or last_index >= coalesce(first_held, last_index + 1)
    then
        raise exception using errcode = 'RB017',
            message = format(
                'sender %s in stream %s: %s to %s is no gap; delivered through index %s, the first held one is %s',
                sender_, stream_name, first_index, coalesce(last_index::text, 'nothing'), state.watermark, coalesce(first_held::text, 'none')
            ),
            hint = 'Skip only what is missing: see relaybox holdback.';
    end if;
    insert into relaybox.skip (stream_id, sender, epoch, first_index, last_index, reason, skipped_by)
    values (here.stream_id, sender_, state.epoch, first_index, last_index, reason_, skipped_by_);
    -- the watermark passes the gap now, so that this decision already finds met what clocks ask of it
    update relaybox.sender_state s set
        skipped = s.skipped + int8multirange(int8range(first_index, skip_gap.last_index, '[]')), watermark = skip_gap.last_index
    where s.sender_id = state.sender_id;
    select l.* into input from relaybox.stream_log l where l.stream_id = here.stream_id and l.origin = state.origin;
    here.recheck := true;
    perform relaybox.deliver_held(here, input);
    select s.last_place - here.last_place into released from relaybox.stream s where s.stream_id = here.stream_id;
end
$$;

CREATE FUNCTION relaybox.slice_content(reads_log integer, lower_ pg_snapshot, upper_ pg_snapshot, topics_ text[], first_read bigint, last_read bigint, first_position bigint, through_position bigint) RETURNS TABLE("position" bigint, message_id uuid, sender text, message_hash text)
    LANGUAGE sql STABLE
    AS $$
    select
        s.position, s.message_id, s.sender,
        relaybox.message_hash(
            s.message_id, s.topic, s.sender, s.epoch, s.index, s.key, s.payload, s.payload_bytes, s.headers, s.clock, s.sent_at
        )
    from (
        select o.* from relaybox.read_outbox_slice(lower_, upper_, topics_, first_read, last_read, first_position) o
        where reads_log is null
        union all
        select l.* from relaybox.read_log_slice(reads_log, first_read, last_read, first_position) l
        where reads_log is not null
    ) s
    where s.position <= through_position
$$;

CREATE FUNCTION relaybox.slice_digest(reads_log integer, lower_ pg_snapshot, upper_ pg_snapshot, topics_ text[], first_read bigint, last_read bigint, first_position bigint, through_position bigint) RETURNS TABLE(row_count bigint, digest text)
    LANGUAGE sql STABLE
    AS $$
    select count(*), md5(string_agg(d.message_hash, '' order by d.position))
    from (
        select c.position, c.message_hash
        from relaybox.slice_content(
            reads_log, lower_, upper_, topics_, first_read, last_read, first_position, through_position
        ) c
        offset 0
    ) d
$$;

CREATE FUNCTION relaybox.slice_digests(reads_log integer, lower_ pg_snapshot, upper_ pg_snapshot, topics_ text[], slices jsonb) RETURNS text[]
    LANGUAGE sql STABLE
    AS $$
    select array_agg(d.digest order by s.slice)
    from relaybox.batch_slices(slices) s
    cross join lateral relaybox.slice_digest(
        reads_log, lower_, upper_, topics_, s.first_read, s.last_read, s.first_position, 9223372036854775807
    ) d
$$;

CREATE FUNCTION relaybox.slice_state(log_id integer, batch_ bigint, slice_ integer, plan_id_ uuid) RETURNS text
    LANGUAGE plpgsql STABLE
    AS $$
declare
    plan_here uuid;
begin
    if exists (select from relaybox.hop_in i where i.hop_id = log_id and i.compacted_batch >= batch_) then
        return 'published';
    elsif not exists (select from relaybox.hop_in i where i.hop_id = log_id) then
        raise exception using errcode = 'RB004', message = format('log %s does not exist in this store', log_id), hint = 'Run: relaybox init';
    end if;
    select a.plan_id into plan_here from relaybox.arrival a where a.hop_id = log_id and a.batch = batch_;
    if found then
        if plan_here <> plan_id_ then
            perform relaybox.refuse_other_plan(log_id, batch_, plan_here, plan_id_);
        end if;
        return 'published';
    end if;
    select r.plan_id into plan_here from relaybox.receipt r where r.hop_id = log_id and r.batch = batch_ and r.slice = slice_;
    if not found then
        return 'open';
    end if;
    if plan_here <> plan_id_ then
        perform relaybox.refuse_other_plan(log_id, batch_, plan_here, plan_id_);
    end if;
    return 'copied';
end
$$;

CREATE FUNCTION relaybox.start_place(stream_id_ integer, start text) RETURNS bigint
    LANGUAGE plpgsql STABLE
    AS $_$
declare
    known relaybox.stream;
    since timestamptz;
    first bigint;
begin
    select * into known from relaybox.stream s where s.stream_id = stream_id_;
    case
        when start = 'earliest' then return known.first_kept_place;
        when start = 'latest' then return known.last_place + 1;
        when start ~ '^[0-9]{1,18}$' then
            perform relaybox.refuse_detached(known, start::bigint, format('stream %s', known.stream));
            if start::bigint < known.first_kept_place then
                raise exception using errcode = 'RB034',
                    message = format('stream %s: place %s is no longer kept; the first one is %s', known.stream, start, known.first_kept_place),
                    hint = 'Start at ''earliest'', or at a kept place.';
            end if;
            if start::bigint > known.last_place + 1 then
                raise exception using errcode = 'RB036',
                    message = format('stream %s: there is no place %s yet; the newest is %s', known.stream, start, known.last_place),
                    hint = 'Start at ''latest'' for what will come.';
            end if;
            return start::bigint;
        else
            begin
                since := start::timestamptz;
            exception when data_exception then
                raise exception using errcode = 'RB036',
                    message = format('%L is no start: give ''earliest'', ''latest'', a place such as 1200, or a time such as 2026-07-01 12:00+00', start);
            end;
            select 1 + coalesce(max(before.last_place), 0) into first
            from relaybox.stream_log l
            join lateral (
                select k.last_place from relaybox.decision k
                where k.hop_id = l.hop_id and k.decided_at < since
                order by k.decided_at desc
                limit 1
            ) before on true
            where l.stream_id = stream_id_;
            perform relaybox.refuse_detached(known, greatest(first, known.dropped_place + 1), format('stream %s', known.stream));
            return greatest(known.first_kept_place, first);
    end case;
end
$_$;

CREATE FUNCTION relaybox.stream_digests(stream_name text, first_place bigint, through_place bigint) RETURNS TABLE(block bigint, digest text)
    LANGUAGE sql STABLE
    SET work_mem TO '256MB'
    SET jit TO 'off'
    AS $$
    select (p.place - 1) / 10000, md5(string_agg(p.place || ':' || p.position, ',' order by p.place))
    from relaybox.stream s cross join lateral relaybox.stream_places(s.stream_id, through_place) p
    where s.stream = stream_name and p.place >= first_place
    group by 1
$$;

CREATE FUNCTION relaybox.stream_has_work(log_id integer) RETURNS boolean
    LANGUAGE sql STABLE
    AS $$
    select coalesce(bool_or(
        i.published_batch > l.decided_batch or s.recheck
        or s.delivery_order = 'causal' and exists (select from relaybox.held h where h.stream_id = s.stream_id)
        or relaybox.has_sender_to_take_up(s.stream_id, l.origin)
    ), true)
    from relaybox.hop_in i
    left join relaybox.stream_log l on l.hop_id = i.hop_id
    left join relaybox.stream s on s.stream_id = l.stream_id
    where i.hop_id = log_id
$$;

CREATE FUNCTION relaybox.stream_places(stream_id_ integer, through_place bigint DEFAULT '9223372036854775807'::bigint) RETURNS TABLE(place bigint, hop_id integer, "position" bigint)
    LANGUAGE sql STABLE
    AS $$
    select d.first_place + n, d.hop_id, d.first_position + n
    from relaybox.delivery d cross join generate_series(0, least(d.last_place, through_place) - d.first_place) n
    where d.stream_id = stream_id_ and d.positions is null and d.first_place <= through_place
    union all
    select d.first_place + u.n - 1, d.hop_id, u.at
    from relaybox.delivery d cross join unnest(d.positions) with ordinality u (at, n)
    where d.stream_id = stream_id_ and d.positions is not null and d.first_place + u.n - 1 <= through_place
$$;

CREATE FUNCTION relaybox.stream_state(hop_name text) RETURNS TABLE(stream text, delivery_order text, last_place bigint, decided_rows bigint, undecided_rows bigint, duplicate_count bigint, set_aside_count bigint, held_count bigint, stalled jsonb)
    LANGUAGE sql STABLE
    AS $$
    select
        s.stream, s.delivery_order, s.last_place, l.decided_position, i.published_position - l.decided_position,
        l.compacted_duplicates + (select coalesce(sum(d.duplicate_count), 0)::bigint from relaybox.decision d where d.hop_id = i.hop_id),
        (select count(*) from relaybox.dead_letter d where d.hop_id = i.hop_id and d.subscription_id is null and d.state = 'open'),
        (select count(*) from relaybox.held h where h.hop_id = i.hop_id),
        coalesce((
            select jsonb_agg(jsonb_build_object('sender', e.sender, 'epoch', e.epoch, 'reason', e.stalled_reason) order by e.sender, e.epoch)
            from relaybox.sender_state e
            where e.stream_id = s.stream_id and e.origin = l.origin and e.stalled_after is not null
        ), '[]')
    from relaybox.hop_in i
    join relaybox.stream_log l on l.hop_id = i.hop_id
    join relaybox.stream s on s.stream_id = l.stream_id
    where i.hop = hop_name
$$;

CREATE FUNCTION relaybox.subscribe(subscription text, source text, start text DEFAULT 'earliest'::text, lanes integer DEFAULT 1, lane_by text DEFAULT 'sender'::text, nack_limit integer DEFAULT 5, crash_limit integer DEFAULT 5, hold_sender boolean DEFAULT false, retry_seconds integer DEFAULT 0, lease_seconds integer DEFAULT 60) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'relaybox', 'pg_temp'
    AS $_$
declare
    found_streams integer[];
    stream_id_ integer;
    first_place_ bigint;
    made integer;
begin
    select array_agg(s.stream_id) into found_streams from relaybox.stream s where s.stream = source;
    if found_streams is null then
        select array_agg(t.stream_id) into found_streams from relaybox.stream_topic t where t.topic = source;
    end if;
    if found_streams is null and source ~ '^[a-z0-9_.-]{1,48}$' then
        select array_agg(s.stream_id) into found_streams from relaybox.stream s where s.topics_by_subscription;
        if cardinality(found_streams) = 1 then
            insert into relaybox.stream_topic (stream_id, topic) values (found_streams[1], source) on conflict do nothing;
            raise notice 'topic % is new; it is carried once its store of origin knows it', source;
        else
            found_streams := null;
        end if;
    end if;
    if found_streams is null or cardinality(found_streams) > 1 then
        raise exception using errcode = 'RB032',
            message = format(
                case when found_streams is null then 'there is no stream and no topic %s in this store' else 'topic %s is carried by several streams; name one' end,
                source
            ),
            hint = 'Streams here: ' || coalesce((
                select string_agg(format('%s (%s)', s.stream, coalesce((
                    select string_agg(t.topic, ', ' order by t.topic) from relaybox.stream_topic t where t.stream_id = s.stream_id
                ), '')), ', ' order by s.stream) from relaybox.stream s
            ), 'none') || '.';
    end if;
    stream_id_ := found_streams[1];
    perform from relaybox.stream s where s.stream_id = stream_id_ for key share;
    first_place_ := relaybox.start_place(stream_id_, start);
    begin
        insert into relaybox.subscription (
            subscription, stream_id, topic, lanes, lane_by, first_place, nack_limit, crash_limit, hold_sender, retry_seconds, lease_seconds
        )
        values (
            subscribe.subscription, stream_id_,
            case when not exists (select from relaybox.stream s where s.stream = source) then source end,
            subscribe.lanes, subscribe.lane_by, first_place_, subscribe.nack_limit, subscribe.crash_limit, subscribe.hold_sender,
            subscribe.retry_seconds, subscribe.lease_seconds
        )
        returning subscription_id into made;
    exception when unique_violation then
        raise exception using errcode = 'RB030', message = format('already subscribed: subscription %s exists in this store', subscription),
            hint = format('Go on with select * from relaybox.fetch(%L), or unsubscribe it first.', subscription);
    end;
    perform relaybox.open_lanes(made, lanes, first_place_);
    perform relaybox.record_action(
        subscription, 'subscribe', null, jsonb_build_object('source', source, 'start', start, 'first_place', first_place_, 'lanes', lanes)
    );
    return first_place_;
end
$_$;

CREATE FUNCTION relaybox.subscription_named(name text) RETURNS relaybox.subscription
    LANGUAGE plpgsql STABLE
    AS $$
declare
    known relaybox.subscription;
begin
    select * into known from relaybox.subscription s where s.subscription = name and s.ended_at is null;
    if not found then
        raise exception using errcode = 'RB031', message = format('there is no subscription %s in this store: not subscribed', name),
            hint = format(
                'Subscribe first: select relaybox.subscribe(%L, ''STREAM''). Known here: %s.', name,
                coalesce((select string_agg(s.subscription, ', ' order by s.subscription) from relaybox.subscription s where s.ended_at is null), 'none')
            );
    end if;
    if known.lanes > 1 and known.lane_hash <> hashtextextended('relaybox', 0) then
        raise exception using errcode = 'RB036',
            message = format('subscription %s has %s lanes, and this server''s hash function would give its senders other lanes', name, known.lanes),
            hint = 'Let the old server finish the subscription, or unsubscribe and subscribe anew at the place up to which all lanes are done.';
    end if;
    return known;
end
$$;

CREATE FUNCTION relaybox.succession(hop_name text, arrived_batch bigint) RETURNS TABLE(reloaded boolean, lower_xmax xid8, generation integer, received_batch bigint, arrived_plan_id text, system_identifier bigint, timeline integer)
    LANGUAGE sql STABLE
    AS $$
    select
        coalesce((
            select b.xmin::text::bigint <> b.xid::text::numeric % 4294967296
            from relaybox.batch b order by b.planned_at desc limit 1
        ), false),
        coalesce(pg_snapshot_xmax(h.lower), '3'::xid8),
        h.generation,
        coalesce((select c.through_batch from relaybox.newest_confirmation(h.hop, 'received') c), 0),
        (select b.plan_id::text from relaybox.batch b where b.hop = h.hop and b.batch = arrived_batch),
        h.system_identifier, h.timeline
    from relaybox.hop_out h
    where h.hop = hop_name
$$;

CREATE FUNCTION relaybox.take_lane(known relaybox.subscription, max_count integer, acked_place bigint, acked_lane integer, only_lane integer, worker_ text) RETURNS relaybox.cursor
    LANGUAGE plpgsql
    AS $$
declare
    c relaybox.cursor;
    taken relaybox.cursor;
    candidate integer;
begin
    if acked_place is not null then
        c := relaybox.acknowledged(relaybox.lock_lane(known, acked_lane), known, acked_place, worker_);
        if known.lanes = 1 or acked_lane = only_lane then
            taken := relaybox.next_fetch(c, known, max_count, worker_);
            perform relaybox.move_cursor(taken);
            return taken;
        end if;
        perform relaybox.move_cursor(c);
    end if;
    if only_lane is not null then
        c := relaybox.lock_lane(known, only_lane);
        if c.worker <> worker_ and c.leased_until > clock_timestamp() then
            raise exception using errcode = 'RB035',
                message = format('subscription %s, lane %s is leased to worker %s until %s', known.subscription, c.lane, c.worker, c.leased_until),
                hint = 'Fetch without naming a lane to get one that is free.';
        end if;
        taken := relaybox.next_fetch(c, known, max_count, worker_);
        if taken is distinct from c then
            perform relaybox.move_cursor(taken);
        end if;
        return taken;
    end if;
    for candidate in select f.lane from relaybox.lanes_for(known, worker_) f loop
        perform from relaybox.lane l where l.subscription_id = known.subscription_id and l.lane = candidate for update skip locked;
        if found then
            c := relaybox.lock_lane(known, candidate);
            if c.worker is null or c.worker = worker_ or c.leased_until <= clock_timestamp() then
                taken := relaybox.next_fetch(c, known, max_count, worker_);
                if taken is distinct from c then
                    perform relaybox.move_cursor(taken);
                end if;
                if taken.worker is not null then
                    return taken;
                end if;
            end if;
        end if;
    end loop;
    return null;
end
$$;

CREATE FUNCTION relaybox.take_up_stalled(here relaybox.stream, input relaybox.stream_log, before_position bigint) RETURNS void
    LANGUAGE plpgsql
    AS $$
declare
    stalled relaybox.sender_state;
begin
    for stalled in
        select s.* from relaybox.sender_state s
        where s.stream_id = here.stream_id and s.origin = input.origin and s.stalled_after is not null and (
            s.stalled_reason = 'set_full' and s.fragment_count <= here.fragments
            or s.stalled_reason = 'holdback_full' and (here.recheck or exists (
                select from pg_temp.batch_sender b
                where b.sender = s.sender and b.epoch = s.epoch and b.first_index <= s.watermark + 1
            ))
            -- in causal order others may have let go what was held
            or s.stalled_reason = 'holdback_full' and (
                s.watermark > s.stalled_watermark or not exists (select from relaybox.held h where h.sender_id = s.sender_id)
            )
            -- the epoch ends: now or never
            or exists (
                select from pg_temp.batch_sender b
                join relaybox.sender d on d.origin = s.origin and d.sender = b.sender and d.epoch = b.epoch
                where b.sender = s.sender and b.epoch > s.epoch
            )
        )
    loop
        update relaybox.sender_state set stalled_after = null, stalled_reason = null where sender_id = stalled.sender_id;
        insert into pg_temp.batch_sender as b (sender, epoch, first_index, last_index, ascending, reads_after)
        select l.sender, l.epoch, min(l.index), max(l.index), false, stalled.stalled_after
        from relaybox.log l
        where l.hop_id = input.hop_id and l.position > stalled.stalled_after and l.position < before_position
            and l.sender = stalled.sender and l.epoch = stalled.epoch
        group by l.sender, l.epoch
        on conflict (sender, epoch) do update set
            first_index = least(b.first_index, excluded.first_index), last_index = greatest(b.last_index, excluded.last_index),
            ascending = false, reads_after = excluded.reads_after;
    end loop;
end
$$;

CREATE FUNCTION relaybox.topics_wanted(hop_name text) RETURNS text[]
    LANGUAGE sql STABLE
    AS $$
    select coalesce(array_agg(t.topic order by t.topic), '{}')
    from relaybox.hop_in i
    join relaybox.stream_log l on l.hop_id = i.hop_id
    join relaybox.stream_topic t on t.stream_id = l.stream_id
    where i.hop = hop_name
$$;

CREATE FUNCTION relaybox.trace_arrival(hop_name text, batch_ bigint, slice_ integer, position_ bigint) RETURNS TABLE(copied_at timestamp with time zone, attempt bigint, published_at timestamp with time zone, message_id uuid, is_kept boolean, is_detached boolean)
    LANGUAGE sql STABLE
    AS $$
    select r.copied_at, r.attempt, a.published_at, l.message_id, position_ >= i.first_kept_position,
        exists (
            select from relaybox.detached_segment d
            where d.hop_id = i.hop_id and d.state = 'detached' and position_ between d.first and d.last
        )
    from relaybox.hop_in i
    left join relaybox.receipt r on r.hop_id = i.hop_id and r.batch = batch_ and r.slice = slice_
    left join relaybox.arrival a on a.hop_id = i.hop_id and a.batch = batch_
    left join relaybox.log l on l.hop_id = i.hop_id and l.position = position_
    where i.hop = hop_name
$$;

CREATE FUNCTION relaybox.trace_delivery(hop_name text, position_ bigint) RETURNS TABLE(stream text, delivery_order text, fate text, place bigint, duplicate_of bigint, reason text, decided_at timestamp with time zone, waits_for jsonb)
    LANGUAGE sql STABLE
    AS $$
    select
        s.stream, s.delivery_order,
        case
            when f.place is not null then 'delivered'
            when x.reason is not null then 'set aside'
            when h.position is not null then 'held'
            when b.position is not null then 'duplicate'
            when w.stalled_reason is not null then 'stalled'
            when position_ < n.first_kept_position then 'no longer kept'
            when position_ <= i.decided_position then 'lost'
            else 'undecided'
        end,
        f.place, b.original, coalesce(x.reason, w.stalled_reason), coalesce(f.delivered_at, x.first_at, h.held_at, b.decided_at),
        case when h.position is not null then coalesce((
            select jsonb_agg(jsonb_build_object('sender', q.sender, 'epoch', q.epoch, 'first_index', q.first_index, 'last_index', q.last_index))
            from (
                select e.sender, e.epoch, lower(r) as first_index, upper(r) - 1 as last_index
                from relaybox.sender_state e
                cross join lateral (
                    select range_agg(int8range(o.index, o.index + 1)) as indexes from relaybox.held o where o.sender_id = e.sender_id
                ) o
                cross join lateral unnest(int8multirange(int8range(e.watermark + 1, greatest(h.index, e.watermark + 1))) - o.indexes - e.skipped) r
                where e.sender_id = h.sender_id
                union all
                select u.sender, u.epoch, u.index, u.index from relaybox.unmet_causes(s.stream_id, i.hop_id, position_) u
            ) q
        ), '[]') end
    from relaybox.stream_log i
    join relaybox.hop_in n on n.hop_id = i.hop_id
    join relaybox.stream s on s.stream_id = i.stream_id
    left join relaybox.log l on l.hop_id = i.hop_id and l.position = position_
    left join lateral (
        select d.first_place + coalesce(array_position(d.positions, position_) - 1, position_ - d.first_position) as place, d.delivered_at
        from relaybox.delivery d
        where d.stream_id = i.stream_id and d.hop_id = i.hop_id and (
            d.positions is null and position_ between d.first_position and d.first_position + d.last_place - d.first_place
            or position_ = any(d.positions)
        )
        limit 1
    ) f on true
    left join relaybox.dead_letter x on x.hop_id = i.hop_id and x.position = position_ and x.subscription_id is null
    left join relaybox.held h on h.hop_id = i.hop_id and h.position = position_
    left join lateral (
        select position_ as "position", d.decided_at, (
            select min(o.position) from relaybox.log o
            where o.hop_id = i.hop_id and o.position < position_ and (
                l.epoch > 0 and (o.sender, o.epoch, o.index) = (l.sender, l.epoch, l.index)
                or o.position >= position_ - s.message_id_window and o.message_id = l.message_id
            )
        ) as original
        from relaybox.decision d where d.hop_id = i.hop_id and position_ = any(d.duplicates)
        limit 1
    ) b on true
    left join relaybox.sender_state w on w.stream_id = i.stream_id and w.sender = l.sender and w.epoch = l.epoch and w.stalled_after < position_
        and position_ <= i.decided_position
    where n.hop = hop_name
$$;

CREATE FUNCTION relaybox.trace_reading(hop_name text, reads bigint, OUT state text, OUT batch bigint, OUT slice integer, OUT "position" bigint, OUT planned_at timestamp with time zone, OUT received_at timestamp with time zone, OUT received_by text, OUT processed_at timestamp with time zone, OUT processed_by text, OUT settled_at timestamp with time zone, OUT settled_by text, OUT moved_by text, OUT application text) RETURNS record
    LANGUAGE plpgsql STABLE
    AS $$
declare
    head relaybox.hop_out;
    message record;
    planned relaybox.batch;
    piece record;
    begins_at bigint := (select s.first_kept_seq from relaybox.store s);
begin
    select * into head from relaybox.hop_out h where h.hop = hop_name;
    select o.xid, o.topic into message from relaybox.outbox o where head.reads_log is null and o.seq = reads;
    select * into planned from relaybox.batch b
    where b.hop = hop_name and b.reads_after < reads and b.reads_through >= reads
        and (head.reads_log is not null
            or message.topic = any(b.topics)
                and pg_visible_in_snapshot(message.xid, b.upper) and not pg_visible_in_snapshot(message.xid, b.lower)
                and exists (
                    select from relaybox.batch_slices(b.slices) s where s.first_read <= reads and s.last_read >= reads
                ));
    if planned.adopted then
        state := 'adopted';
        return;
    end if;
    if not found then
        state := case
            when reads <= head.anchor_seq and message.topic = any(head.topics) and not head.undelivered @> reads then 'adopted'
            when head.reads_log is null and reads > head.anchor_seq and pg_visible_in_snapshot(message.xid, head.lower) and not exists (
                select from relaybox.batch b
                where b.hop = hop_name and b.batch = head.batch and b.generation = head.generation
                    and not b.pair_exhausted and b.reads_through < reads
                    and message.topic = any(b.topics) and not pg_visible_in_snapshot(message.xid, b.lower)
            ) then 'passed over'
            else 'waiting'
        end;
        return;
    end if;
    state := 'planned';
    batch := planned.batch;
    planned_at := planned.planned_at;
    select a.recorded_by, a.application into moved_by, application from relaybox.attempt a
    where a.hop = hop_name and a.batch = planned.batch order by a.attempt desc limit 1;
    select * into piece from relaybox.batch_slices(planned.slices) s where s.first_read <= reads and s.last_read >= reads;
    slice := piece.slice;
    "position" := case
        when head.reads_log is not null then reads - piece.first_read + piece.first_position
        -- retention has dropped the slice's beginning: counted from its end
        when piece.first_read < begins_at then (
            select piece.first_position + piece.row_count - 1 - count(*)
            from relaybox.read_outbox_slice(planned.lower, planned.upper, planned.topics, reads + 1, piece.last_read, 0) r
        )
        else (
            select max(r.position)
            from relaybox.read_outbox_slice(
                planned.lower, planned.upper, planned.topics, piece.first_read, reads, piece.first_position
            ) r
        )
    end;
    select c.recorded_at, c.recorded_by into received_at, received_by
    from relaybox.confirmation_of(hop_name, 'received', trace_reading.position) c;
    select c.recorded_at, c.recorded_by into processed_at, processed_by
    from relaybox.confirmation_of(hop_name, 'processed', trace_reading.position) c;
    select c.recorded_at, c.recorded_by into settled_at, settled_by
    from relaybox.confirmation_of(hop_name, 'settled', trace_reading.position) c;
end
$$;

CREATE FUNCTION relaybox.trace_sent(message_id_ uuid) RETURNS TABLE(seq bigint, xid xid8, topic text, sender text, epoch integer, index bigint, sent_at timestamp with time zone, committed_at timestamp with time zone)
    LANGUAGE sql STABLE
    AS $$
    select
        o.seq, o.xid, o.topic, o.sender, o.epoch, o.index, o.sent_at,
        case when current_setting('track_commit_timestamp') = 'on' then pg_xact_commit_timestamp(o.xid::xid) end
    from relaybox.outbox o
    where o.message_id = message_id_
    order by o.seq
$$;

CREATE FUNCTION relaybox.unbatched_messages(hop_name text) RETURNS TABLE(seq bigint, message_id uuid, sender text, through_batch bigint)
    LANGUAGE plpgsql STABLE
    SET enable_seqscan TO 'off'
    AS $$
declare
    every_seq constant bigint := 4611686018427387904;
    pair record;
    row_count bigint;
    anchor bigint := (select h.anchor_seq from relaybox.hop_out h where h.hop = hop_name);
    first_lower text := coalesce((
        select b.lower::text from relaybox.batch b
        join relaybox.hop_out h on h.hop = b.hop and h.generation = b.generation
        where b.hop = hop_name and b.generation > 1 and b.upper::text <> relaybox.every_transaction()::text
        order by b.batch limit 1
    ), (select h.lower::text from relaybox.hop_out h where h.hop = hop_name and h.generation > 1), '1:1:');
begin
    for pair in
        with slice as (
            select b.batch, b.lower, b.upper, b.topics, b.pair_exhausted, b.reads_after, b.reads_through,
                s.first_read, s.last_read, s.row_count as slice_rows
            from relaybox.batch b
            join relaybox.hop_out h on h.hop = b.hop and h.generation = b.generation, relaybox.batch_slices(b.slices) s
            where b.hop = hop_name and b.lower is not null and b.upper::text <> relaybox.every_transaction()::text
        ),
        planned as (
            -- topics may change inside a pair: then each part of it counts for itself
            select
                max(batch) as batch, lower::text as lower_, upper::text as upper_, topics as topics_, min(reads_after) as reads_after_,
                case when bool_or(pair_exhausted) then every_seq else max(reads_through) end as reads_through_,
                sum(slice_rows) as planned_count,
                range_agg(int8range(first_read, last_read, '[]')) as covered
            from slice
            group by lower::text, upper::text, topics
        ),
        chain as (
            select p.*, lag(p.upper_, 1, first_lower) over later as upper_before, lag(p.topics_, 1, p.topics_) over later as topics_before
            from (
                select * from planned
                union all
                select h.batch + 1, h.lower::text, h.lower::text, h.topics, 0, 0, 0, '{}' from relaybox.hop_out h where h.hop = hop_name
            ) p
            window later as (order by p.batch, p.reads_after_)
        )
        select batch, lower_::pg_snapshot, upper_::pg_snapshot, topics_, reads_after_, reads_through_, planned_count, covered from planned
        union all
        -- what an empty pair skipped: nothing of the topics before and after it may be in there
        select
            batch - 1, upper_before::pg_snapshot, lower_::pg_snapshot, array(select unnest(topics_before) intersect select unnest(topics_)),
            0, every_seq, 0, '{}'
        from chain
        where upper_before <> lower_ and reads_after_ = 0
        order by 1
    loop
        if (pair.reads_after_, pair.reads_through_) = (0, every_seq) then
            select coalesce(sum(k.row_count), 0) into row_count
            from relaybox.outbox_buckets(pair.lower_, pair.upper_, pair.topics_, every_seq, anchor) k;
        else
            select coalesce(sum(k.row_count), 0) into row_count
            from relaybox.outbox_buckets_after(
                pair.lower_, pair.upper_, pair.topics_, every_seq, greatest(pair.reads_after_, anchor), pair.reads_through_, every_seq
            ) k;
        end if;
        if row_count <> pair.planned_count then
            return query
            select o.seq, o.message_id, o.sender, pair.batch
            from relaybox.outbox o
            where o.seq > greatest(pair.reads_after_, anchor) and o.seq <= pair.reads_through_
                and not pair.covered @> o.seq
                and o.topic = any(pair.topics_)
                and pg_visible_in_snapshot(o.xid, pair.upper_) and not pg_visible_in_snapshot(o.xid, pair.lower_)
            order by o.seq;
        end if;
    end loop;
end
$$;

CREATE FUNCTION relaybox.unbind_sender(sender_ text, role_name_ name) RETURNS boolean
    LANGUAGE plpgsql
    AS $$
begin
    delete from relaybox.sender_role b where b.sender = sender_ and b.role_name = role_name_;
    return found;
end
$$;

CREATE FUNCTION relaybox.undelivered_buckets(undelivered int8multirange, topics_ text[], bucket_seqs bigint) RETURNS TABLE(first_seq bigint, last_seq bigint, row_count bigint, run bigint)
    LANGUAGE sql STABLE
    AS $$
    select min(o.seq), max(o.seq), count(*), r.run
    from unnest(undelivered) with ordinality r (seqs, run)
    join relaybox.outbox o on o.seq >= lower(r.seqs) and o.seq < upper(r.seqs)
    where o.topic = any(topics_)
    group by r.run, o.seq / bucket_seqs
    order by 1
$$;

CREATE FUNCTION relaybox.undelivered_messages(hop_name text, common_batch bigint, through_seq bigint, OUT seqs int8multirange, OUT message_count bigint) RETURNS record
    LANGUAGE plpgsql
    AS $$
declare
    head relaybox.hop_out;
    newest relaybox.batch;
    read_through bigint;
    left_over int8multirange;
begin
    select * into head from relaybox.hop_out h where h.hop = hop_name;
    -- newest pair of snapshots of this generation that is common
    select * into newest from relaybox.batch b
    where b.hop = hop_name and b.batch <= common_batch and b.generation = head.generation
        and b.upper is not null and b.upper::text <> relaybox.every_transaction()::text
    order by b.batch desc limit 1;
    select coalesce(max(b.pair_last_seq), 0) into read_through from relaybox.batch b
    where b.hop = hop_name and b.batch <= common_batch and b.generation = head.generation
        and b.upper::text <> relaybox.every_transaction()::text;
    -- what this generation had found undelivered, and planned in batches that are void now
    select head.undelivered + coalesce(range_agg(int8range(s.first_read, s.last_read, '[]')), '{}') into left_over
    from relaybox.batch b, relaybox.batch_slices(b.slices) s
    where b.hop = hop_name and b.batch > common_batch and b.upper::text = relaybox.every_transaction()::text;
    select coalesce(range_agg(int8range(runs.first_seq, runs.last_seq, '[]')), '{}'), coalesce(sum(runs.row_count), 0)
    into seqs, message_count
    from (
        select min(m.seq) as first_seq, max(m.seq) as last_seq, count(*) as row_count
        from (
            select
                d.seq, d.delivered,
                row_number() over (order by d.seq) - row_number() over (partition by d.delivered order by d.seq) as island
            from (
                select
                    o.seq,
                    case
                        when o.seq <= head.anchor_seq then not left_over @> o.seq
                        when newest.batch is null or o.seq > read_through or not pg_visible_in_snapshot(o.xid, newest.upper) then false
                        else newest.pair_exhausted or o.seq <= newest.reads_through or pg_visible_in_snapshot(o.xid, newest.lower)
                    end
                    or exists (select from relaybox_adopted a where a.message_id = o.message_id and a.sent_at = o.sent_at)
                    as delivered
                from relaybox.outbox o
                where o.seq <= through_seq and o.topic = any(head.topics)
            ) d
        ) m
        where not m.delivered
        group by m.island
    ) runs;
end
$$;

CREATE FUNCTION relaybox.unmet_causes(stream_id_ integer, log_id integer, position_ bigint) RETURNS TABLE(sender text, epoch integer, index bigint, watermark bigint, origin text)
    LANGUAGE sql STABLE
    AS $$
    select
        e.sender, e.epoch, relaybox.index_to_wait_for(s.skipped, e.index), s.watermark, (
            select min(d.origin) from relaybox.sender d join relaybox.stream_log i on i.origin = d.origin
            where i.stream_id = stream_id_ and d.sender = e.sender and d.epoch = e.epoch
        )
    from relaybox.log l
    cross join relaybox.clock_entries(l.clock) e
    left join relaybox.sender_state s on s.stream_id = stream_id_ and s.sender = e.sender and s.epoch = e.epoch
    where l.hop_id = log_id and l.position = position_ and e.sender <> l.sender and (s.watermark >= relaybox.index_to_wait_for(s.skipped, e.index)) is not true
        and not exists (
            select from relaybox.sender_state n
            where n.stream_id = stream_id_ and n.sender = e.sender and n.epoch > e.epoch and n.begun_at is not null
        )
$$;

CREATE FUNCTION relaybox.unrouted_seq(through_seq bigint) RETURNS bigint
    LANGUAGE plpgsql STABLE
    SET enable_seqscan TO 'on'
    AS $$
declare
    topics_ text[] := array(select distinct unnest(h.topics) from relaybox.hop_out h where h.reads_log is null and h.retired_at is null);
begin
    return (
        select min(o.seq)
        from relaybox.outbox o
        left join lateral (
            select m.upper
            from (
                select b.upper, b.planned_at as at_ from relaybox.batch b where o.topic = any(b.topics)
                union all
                select h.given_up, h.retired_at from relaybox.hop_out h where o.topic = any(h.topics) and h.given_up is not null
            ) m
            order by m.at_ desc limit 1
        ) moved on true
        where o.seq <= through_seq and o.topic <> all(topics_)
            and (moved.upper is null or not pg_visible_in_snapshot(o.xid, moved.upper))
    );
end
$$;

CREATE FUNCTION relaybox.unrouted_topics(newest bigint) RETURNS TABLE(topic text, message_count bigint, first_sent_at timestamp with time zone)
    LANGUAGE sql STABLE
    AS $$
    select o.topic, count(*), min(o.sent_at)
    from relaybox.outbox o
    where o.seq > (select q.last_value - newest from relaybox.outbox_seq q)
        and o.topic <> all(array(select unnest(h.topics) from relaybox.hop_out h where h.reads_log is null and h.retired_at is null))
    group by o.topic
    order by o.topic
$$;

CREATE FUNCTION relaybox.unsubscribe(subscription text, reason text DEFAULT NULL::text) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'relaybox', 'pg_temp'
    AS $$
declare
    known relaybox.subscription := relaybox.subscription_named(unsubscribe.subscription);
    ended integer[];
    stood jsonb;
begin
    ended := array(
        select s.subscription_id from relaybox.subscription s
        where s.ended_at is null and (s.subscription_id = known.subscription_id or s.replay_of = known.subscription_id)
    );
    perform from relaybox.lane l where l.subscription_id = any(ended) order by l.subscription_id, l.lane for update;
    select jsonb_object_agg(c.lane, c.done_place) into stood from relaybox.lane_cursors c where c.subscription_id = known.subscription_id;
    delete from relaybox.cursor c where c.subscription_id = any(ended);
    delete from relaybox.failed_attempt f where f.subscription_id = any(ended);
    delete from relaybox.lane l where l.subscription_id = any(ended);
    update relaybox.subscription s set ended_at = clock_timestamp() where s.subscription_id = any(ended);
    perform relaybox.record_action(
        known.subscription, case when known.replay_of is null then 'unsubscribe' else 'cancel_replay' end, reason,
        jsonb_build_object('done_places', stood)
    );
end
$$;

CREATE FUNCTION relaybox.waits_at_once() RETURNS TABLE(taken bigint, for_taken bigint, after bigint, by_clock boolean)
    LANGUAGE sql STABLE
    AS $$
    select j.taken, d.taken, d.ordinal, true
    from pg_temp.judged j
    join pg_temp.cause c on c.taken = j.taken
    join pg_temp.judged d on d.counts and d.sender_id = c.sender_id and d.index = c.index and d.t = j.t
    left join pg_temp.fence f on f.sender_id = j.sender_id
    where (f.fenced_at <= j.t) is not true
    union all
    -- what the clock names never came, and its epoch ends now: what had come before it
    select j.taken, d.taken, d.ordinal, true
    from pg_temp.judged j
    join pg_temp.cause c on c.taken = j.taken and c.fenced_at = j.t
    left join pg_temp.fence f on f.sender_id = j.sender_id
    cross join lateral (
        select k.taken, k.ordinal from pg_temp.judged k
        where k.counts and k.sender_id = c.sender_id and k.index < c.index and k.t = j.t
        order by k.index desc limit 1
    ) d
    where (f.fenced_at <= j.t) is not true
    union all
    select o.taken, o.for_taken, o.after, false
    from (
        select j.taken, lag(j.taken) over own as for_taken, lag(j.ordinal) over own as after
        from pg_temp.judged j where j.counts and j.t is not null
        window own as (partition by j.sender_id, j.t order by j.index)
    ) o
    where o.for_taken is not null
    union all
    select j.taken, d.taken, d.ordinal, false
    from pg_temp.judged j
    join relaybox.sender_state s on s.sender_id = j.sender_id
    join relaybox.sender_state low on low.stream_id = s.stream_id and low.sender = s.sender and low.epoch < s.epoch
    join pg_temp.judged d on d.counts and d.sender_id = low.sender_id and d.t = j.t
    where j.counts
$$;

CREATE FUNCTION relaybox.worker_name(given text) RETURNS text
    LANGUAGE sql STABLE
    AS $$
    select coalesce(given, 'pid ' || pg_backend_pid())
$$;

CREATE TABLE relaybox.attempt (
    hop text NOT NULL,
    batch bigint NOT NULL,
    attempt bigint NOT NULL,
    recorded_by text NOT NULL,
    application text,
    began_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL
);

CREATE TABLE relaybox.attestation (
    attested_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    attested_by text NOT NULL,
    reason text NOT NULL,
    from_system_identifier bigint NOT NULL,
    from_timeline integer NOT NULL,
    system_identifier bigint NOT NULL,
    timeline integer NOT NULL
);

CREATE TABLE relaybox.confirmation (
    hop text NOT NULL,
    state text NOT NULL,
    through_position bigint NOT NULL,
    through_batch bigint NOT NULL,
    happened_at timestamp with time zone NOT NULL,
    recorded_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    recorded_by text NOT NULL,
    CONSTRAINT state_is_known CHECK ((state = ANY (ARRAY['received'::text, 'processed'::text, 'settled'::text])))
);

CREATE TABLE relaybox.consumer_action (
    action_id bigint NOT NULL,
    subscription text NOT NULL,
    action text NOT NULL,
    detail jsonb NOT NULL,
    reason text,
    done_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    done_by text DEFAULT SESSION_USER NOT NULL,
    CONSTRAINT action_is_known CHECK ((action = ANY (ARRAY['subscribe'::text, 'unsubscribe'::text, 'replay'::text, 'cancel_replay'::text, 'redrive'::text, 'drop'::text])))
);

ALTER TABLE relaybox.consumer_action ALTER COLUMN action_id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME relaybox.consumer_action_action_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE relaybox.dead_letter (
    stream_id integer NOT NULL,
    hop_id integer NOT NULL,
    "position" bigint NOT NULL,
    reason text NOT NULL,
    detail text,
    first_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    dead_letter_id bigint NOT NULL,
    subscription_id integer,
    lane integer,
    place bigint,
    sender text,
    attempts integer DEFAULT 1 NOT NULL,
    last_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    last_by text DEFAULT SESSION_USER NOT NULL,
    state text DEFAULT 'open'::text NOT NULL,
    settled_at timestamp with time zone,
    settled_by text,
    settled_reason text,
    CONSTRAINT dead_letter_of_a_lane CHECK ((num_nulls(subscription_id, lane, place, sender) = ANY (ARRAY[0, 4]))),
    CONSTRAINT state_is_known CHECK ((state = ANY (ARRAY['open'::text, 'redriving'::text, 'redriven'::text, 'dropped'::text])))
);

ALTER TABLE relaybox.dead_letter ALTER COLUMN dead_letter_id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME relaybox.dead_letter_dead_letter_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE relaybox.hop_in (
    hop_id integer NOT NULL,
    hop text NOT NULL,
    source text NOT NULL,
    published_batch bigint DEFAULT 0 NOT NULL,
    published_position bigint DEFAULT 0 NOT NULL,
    registered_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    generation integer DEFAULT 1 NOT NULL,
    replay_window_seconds bigint,
    stopped_consumer text DEFAULT 'alarm'::text NOT NULL,
    first_kept_position bigint DEFAULT 1 NOT NULL,
    compacted_batch bigint DEFAULT 0 NOT NULL,
    compacted_position bigint DEFAULT 0 NOT NULL,
    detach_after_seconds bigint,
    detach_to text,
    CONSTRAINT detach_says_when_and_where CHECK (((stopped_consumer <> 'detach'::text) OR ((detach_after_seconds IS NOT NULL) AND (detach_to IS NOT NULL)))),
    CONSTRAINT first_kept_position_positive CHECK ((first_kept_position >= 1)),
    CONSTRAINT published_never_negative CHECK (((published_batch >= 0) AND (published_position >= 0))),
    CONSTRAINT replay_window_never_negative CHECK ((replay_window_seconds >= 0)),
    CONSTRAINT stopped_consumer_is_known CHECK ((stopped_consumer = ANY (ARRAY['keep'::text, 'alarm'::text, 'detach'::text])))
);

COMMENT ON COLUMN relaybox.hop_in.replay_window_seconds IS 'a message stays for so long after it was delivered; null: for ever';

COMMENT ON COLUMN relaybox.hop_in.first_kept_position IS 'segments of the log below it were dropped';

COMMENT ON COLUMN relaybox.hop_in.compacted_batch IS 'arrivals, receipts and decisions up to it were removed: none of their messages is kept';

COMMENT ON COLUMN relaybox.hop_in.detach_after_seconds IS 'so long a consumer must have stood still before what only it needs is detached';

COMMENT ON COLUMN relaybox.hop_in.detach_to IS 'directory or URI, written and read by Spark';

CREATE TABLE relaybox.log (
    hop_id integer NOT NULL,
    epoch integer NOT NULL,
    "position" bigint NOT NULL,
    index bigint NOT NULL,
    message_id uuid NOT NULL,
    sent_at timestamp with time zone NOT NULL,
    topic text NOT NULL,
    sender text NOT NULL,
    key text,
    headers jsonb,
    payload text,
    payload_bytes bytea,
    clock jsonb
)
PARTITION BY LIST (hop_id);

COMMENT ON COLUMN relaybox.log.epoch IS '0: the sender gave no index, and the first log numbered the message by its position';

CREATE VIEW relaybox.dead_letters WITH (security_barrier='true') AS
 SELECT d.dead_letter_id AS letter,
    d.state,
    s.stream,
    n.subscription,
    d.lane,
    d.place,
    d.reason,
    d.detail,
    d.attempts,
    d.first_at,
    d.last_at,
    d.last_by,
    d.settled_at,
    d.settled_by,
    d.settled_reason,
    i.hop,
    d."position",
    l.message_id,
    l.topic,
    l.sender,
    l.epoch,
    l.index,
    l.key,
    l.payload,
    l.payload_bytes,
    l.headers,
    l.sent_at
   FROM ((((relaybox.dead_letter d
     JOIN relaybox.stream s ON ((s.stream_id = d.stream_id)))
     JOIN relaybox.hop_in i ON ((i.hop_id = d.hop_id)))
     LEFT JOIN relaybox.subscription n ON ((n.subscription_id = d.subscription_id)))
     LEFT JOIN relaybox.log l ON (((l.hop_id = d.hop_id) AND (l."position" = d."position"))));

CREATE TABLE relaybox.delivery (
    stream_id integer NOT NULL,
    first_place bigint NOT NULL,
    last_place bigint NOT NULL,
    hop_id integer NOT NULL,
    first_position bigint NOT NULL,
    positions bigint[],
    delivered_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    CONSTRAINT delivery_names_each_position CHECK (((positions IS NULL) OR (cardinality(positions) = ((last_place - first_place) + 1)))),
    CONSTRAINT delivery_not_empty CHECK (((first_place >= 1) AND (last_place >= first_place)))
);

CREATE TABLE relaybox.dropped_segment (
    dropped_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    segment text NOT NULL,
    hop text,
    first bigint NOT NULL,
    last bigint NOT NULL,
    bytes bigint NOT NULL,
    dropped_by text NOT NULL
);

CREATE TABLE relaybox.failed_attempt (
    subscription_id integer NOT NULL,
    lane integer NOT NULL,
    place bigint NOT NULL,
    attempts integer NOT NULL,
    first_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    last_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    last_by text NOT NULL,
    reason text NOT NULL
);

CREATE TABLE relaybox.generation (
    hop text NOT NULL,
    generation integer NOT NULL,
    begun_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    begun_by text NOT NULL,
    reason text NOT NULL,
    adopted_from bigint NOT NULL,
    adopted_through bigint NOT NULL,
    anchor_seq bigint NOT NULL,
    undelivered_count bigint NOT NULL,
    ghost_count bigint NOT NULL
);

CREATE TABLE relaybox.ghost (
    hop text NOT NULL,
    "position" bigint NOT NULL,
    generation integer NOT NULL,
    message_id uuid NOT NULL,
    sender text NOT NULL,
    topic text NOT NULL,
    sent_at timestamp with time zone NOT NULL
);

CREATE TABLE relaybox.held (
    hop_id integer NOT NULL,
    "position" bigint NOT NULL,
    stream_id integer NOT NULL,
    sender_id integer NOT NULL,
    index bigint NOT NULL,
    taken bigint NOT NULL,
    held_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL
);

ALTER TABLE relaybox.hop_in ALTER COLUMN hop_id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME relaybox.hop_in_hop_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE VIEW relaybox.inbox WITH (security_barrier='true') AS
 SELECT i.hop,
    l."position",
    l.message_id,
    l.topic,
    l.sender,
    l.epoch,
    l.index,
    l.key,
    l.payload,
    l.payload_bytes,
    l.headers,
    l.clock,
    l.sent_at
   FROM (relaybox.hop_in i
     JOIN relaybox.log l ON (((l.hop_id = i.hop_id) AND (l."position" <= i.published_position))));

CREATE TABLE relaybox.index_range (
    sender_id integer NOT NULL,
    first_index bigint NOT NULL,
    last_index bigint NOT NULL,
    first_position bigint NOT NULL,
    last_position bigint NOT NULL
);

CREATE TABLE relaybox.lane (
    subscription_id integer NOT NULL,
    lane integer NOT NULL
);

CREATE VIEW relaybox.lane_cursors AS
 SELECT newest.subscription_id,
    newest.lane,
    newest.version,
    newest.done_place,
    newest.fetched_place,
    newest.redrive_place,
    newest.fetch_count,
    newest.suspect_place,
    newest.suspect_rows,
    newest.worker,
    newest.leased_until,
    newest.wait_until,
    newest.replay_place,
    newest.rate_from,
    newest.moved_at
   FROM (relaybox.lane l
     CROSS JOIN LATERAL ( SELECT c.subscription_id,
            c.lane,
            c.version,
            c.done_place,
            c.fetched_place,
            c.redrive_place,
            c.fetch_count,
            c.suspect_place,
            c.suspect_rows,
            c.worker,
            c.leased_until,
            c.wait_until,
            c.replay_place,
            c.rate_from,
            c.moved_at
           FROM relaybox.cursor c
          WHERE ((c.subscription_id = l.subscription_id) AND (c.lane = l.lane))
          ORDER BY c.version DESC
         LIMIT 1) newest);
