-- What a monitoring system asks a store about every few seconds: a row per metric and set of labels. The names are explained in
-- plugins/relaybox/monitoring/metrics.py. An age is how long a watermark has stood although something lies beyond it, else 0.
create or replace function relaybox_internal.store_metrics() returns table (metric text, labels jsonb, value double precision)
language sql stable
as $$
    with
    leaving as (
        select h.hop, h.batch, h.reads_log, h.log_position as planned_position, h.stopped_consumer, received.through_position as received_position,
        settled.through_position as settled_position,
            unreceived.planned_at as unreceived_since, unsettled.recorded_at as unsettled_since, settled.recorded_at as settled_at,
            greatest(newest.planned_at, received.recorded_at) as progress_at
        from relaybox_internal.hop_out h
        left join relaybox_internal.batch newest on newest.hop = h.hop and newest.batch = h.batch
        left join lateral relaybox_internal.newest_confirmation(h.hop, 'received') received on true
        left join lateral relaybox_internal.newest_confirmation(h.hop, 'settled') settled on true
        left join lateral (
            select b.planned_at from relaybox_internal.batch b
            where b.hop = h.hop and b.batch > coalesce(received.through_batch, 0) order by b.batch limit 1
        ) unreceived on true
        left join lateral relaybox_internal.confirmation_of(h.hop, 'received', coalesce(settled.through_position, 0) + 1) unsettled on true
        where h.retired_at is null
    ),
    arriving as (
        select s.stream, i.hop, undecided.published_at as undecided_since, l.decided_at
        from relaybox_internal.stream_log sl
        join relaybox_internal.stream s on s.stream_id = sl.stream_id
        join relaybox_internal.hop_in i on i.log_id = sl.log_id
        left join lateral (
            select a.published_at from relaybox_internal.arrival a
            where a.log_id = sl.log_id and a.batch > sl.decided_batch order by a.batch limit 1
        ) undecided on true
        left join lateral (
            select d.decided_at from relaybox_internal.decision d where d.log_id = sl.log_id order by d.batch desc limit 1
        ) l on true
    ),
    lanes as (
        -- many lanes stand at one stream position: what waits behind it is looked up once
        select u.subscription_id, u.subscription, u.stream_id, c.done_stream_position, count(*) as lane_count, min(c.moved_at) as moved_at,
            greatest(0, least(u.through_stream_position, s.last_stream_position) - c.done_stream_position) as stream_positions_behind
        from relaybox_internal.subscription u
        join relaybox_internal.stream s on s.stream_id = u.stream_id
        join relaybox_internal.lane_cursors c on c.subscription_id = u.subscription_id
        where u.ended_at is null
        group by u.subscription_id, u.subscription, u.stream_id, c.done_stream_position, s.last_stream_position
    ),
    waiting as (
        select p.stream_id, p.done_stream_position, min(first.decided_at) as since
        from (select distinct l.stream_id, l.done_stream_position from lanes l where l.stream_positions_behind > 0) p
        join relaybox_internal.stream_log g on g.stream_id = p.stream_id
        cross join lateral (
            select k.decided_at from relaybox_internal.decision k
            where k.log_id = g.log_id and k.last_stream_position > p.done_stream_position
            order by k.last_stream_position
            limit 1
        ) first
        group by p.stream_id, p.done_stream_position
    ),
    subscribed as (
        select l.subscription, s.stream, s.stream_id, sum(l.stream_positions_behind * l.lane_count) as behind,
        max(l.stream_positions_behind) as furthest_behind,
            max(case when l.stream_positions_behind > 0 then extract(epoch from now() - greatest(w.since, l.moved_at)) end) as waiting_seconds
        from lanes l
        join relaybox_internal.stream s on s.stream_id = l.stream_id
        left join waiting w on w.stream_id = l.stream_id and w.done_stream_position = l.done_stream_position
        group by l.subscription_id, l.subscription, s.stream, s.stream_id
    ),
    -- who keeps whole segments although his route does not want it in silence
    keeping as (
        select 'hop' as kind, l.hop as holder,
            case
                when l.reads_log is null then l.planned_position - coalesce(l.settled_position, 0)
                else i.published_position - (select r.through_position from relaybox_internal.settled_reading(l.hop) r)
            end as behind,
            least(l.unsettled_since, l.unreceived_since, (
                select a.published_at from relaybox_internal.arrival a
                where a.log_id = l.reads_log and a.last_position > (
                    select r.through_position from relaybox_internal.settled_reading(l.hop) r
                ) order by a.batch limit 1
            )) as since
        from leaving l left join relaybox_internal.hop_in i on i.log_id = l.reads_log
        where l.stopped_consumer = 'alarm'
        union all
        select 'subscription', s.subscription, s.furthest_behind, now() - make_interval(secs => s.waiting_seconds::double precision)
        from subscribed s
        where exists (
            select from relaybox_internal.stream_log l join relaybox_internal.hop_in i on i.log_id = l.log_id
            where l.stream_id = s.stream_id and i.stopped_consumer = 'alarm'
        )
        union all
        -- whom detaching should have relieved, had it run: of what is older than the window, and here
        select 'subscription', s.subscription, old.last_stream_position - greatest(t.last_stream_position - s.furthest_behind,
        t.first_kept_stream_position - 1),
            now() - make_interval(secs => s.waiting_seconds::double precision) + make_interval(secs => old.after_seconds)
        from subscribed s
        join relaybox_internal.stream t on t.stream_id = s.stream_id
        cross join lateral (
            select max(i.detach_after_seconds) as after_seconds, max((
                select k.last_stream_position from relaybox_internal.decision k
                where k.log_id = i.log_id and k.decided_at <= now() - make_interval(secs => i.replay_window_seconds)
                order by k.decided_at desc limit 1
            )) as last_stream_position
            from relaybox_internal.stream_log l join relaybox_internal.hop_in i on i.log_id = l.log_id
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
        from relaybox_internal.stream s left join relaybox_internal.held h on h.stream_id = s.stream_id
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
    select 'relaybox_stream_delivered_messages_total', jsonb_build_object('stream', stream), last_stream_position from relaybox_internal.stream
    union all
    select 'relaybox_stream_duplicates_total', jsonb_build_object('stream', s.stream), coalesce(sum(l.compacted_duplicates + (
        select coalesce(sum(d.duplicate_count), 0) from relaybox_internal.decision d where d.log_id = l.log_id
    )), 0)
    from relaybox_internal.stream s
    left join relaybox_internal.stream_log l on l.stream_id = s.stream_id
    group by s.stream
    union all
    select 'relaybox_stream_held_messages', jsonb_build_object('stream', s.stream),
        (select count(*) from relaybox_internal.held h where h.stream_id = s.stream_id)
    from relaybox_internal.stream s
    union all
    select 'relaybox_stream_stalled_senders', jsonb_build_object('stream', s.stream),
        (select count(*) from relaybox_internal.sender_state e where e.stream_id = s.stream_id and e.stalled_after is not null)
    from relaybox_internal.stream s
    union all
    select 'relaybox_dead_letters', jsonb_build_object('stream', s.stream),
        (select count(*) from relaybox_internal.dead_letter d where d.stream_id = s.stream_id and d.state in ('open', 'redriving'))
    from relaybox_internal.stream s
    union all
    select 'relaybox_retention_held_seconds', jsonb_build_object('kind', k.kind, 'holder', k.holder),
        case when k.behind >= s.segment_rows then coalesce(greatest(extract(epoch from now() - k.since), 0), 0) else 0 end
    from keeping k cross join relaybox_internal.store s
    union all
    select 'relaybox_detached_messages', jsonb_build_object('hop', i.hop), coalesce(sum(d.row_count), 0)::double precision
    from relaybox_internal.hop_in i left join relaybox_internal.detached_segment d on d.log_id = i.log_id and d.state = 'detached'
    group by i.hop
    union all
    select 'relaybox_retention_segments', jsonb_build_object('table', coalesce(i.hop, 'outbox')), count(*)
    from relaybox_internal.segments() g left join relaybox_internal.hop_in i on i.log_id = g.log_id
    group by i.hop
    union all
    select 'relaybox_retention_first_kept', '{"table": "outbox"}', first_kept_seq from relaybox_internal.store
    union all
    select 'relaybox_retention_first_kept', jsonb_build_object('table', hop), first_kept_position from relaybox_internal.hop_in
    union all
    select 'relaybox_store_oldest_transaction_seconds', '{}',
        coalesce(greatest(max(extract(epoch from now() - o.since)), 0), 0)
    from (
        select a.xact_start as since from pg_stat_activity a
        where a.datname = current_database() and a.backend_xid is not null and a.pid <> pg_backend_pid()
        union all
        select x.prepared from pg_prepared_xacts x where x.database = current_database()  -- of no session any more
    ) o
    union all
    select 'relaybox_store_bytes', jsonb_build_object('part', t.part), sum(pg_total_relation_size(t.oid))
    from (
        select c.oid,
            case when c.relname like 'outbox%' then 'outbox' when c.relname like 'log%' then 'logs'
                when c.relname in ('batch', 'attempt', 'receipt', 'arrival', 'confirmation', 'decision',
                'delivery') then 'ledgers' else 'rest' end as part
        from pg_class c where c.relnamespace in ('relaybox'::regnamespace, 'relaybox_internal'::regnamespace) and c.relkind = 'r'
    ) t
    group by t.part
$$;
