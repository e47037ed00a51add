-- Metrics of the open subscriptions of this store. Held seconds: how long a subscription has kept a
-- segment or more from being dropped, on a route that wants an alarm for it; on a route that
-- detaches, how long retention has not detached messages that only this subscription needs.
create or replace function relaybox_internal.subscription_metrics()
returns table (metric text, labels jsonb, value double precision)
language sql stable
as $$
    with delays as materialized (
        select d.*, now() - make_interval(secs => d.waiting_seconds::double precision) as since
        from relaybox_internal.subscription_delays() d
    )
    select
        'relaybox_watermark_age_seconds',
        jsonb_build_object(
            'watermark', 'acknowledged', 'stream', d.stream, 'subscription', d.subscription
        ),
        coalesce(greatest(d.waiting_seconds, 0), 0)
    from delays d
    union all
    select
        'relaybox_subscription_behind_messages',
        jsonb_build_object('stream', d.stream, 'subscription', d.subscription),
        d.behind
    from delays d
    union all
    select
        'relaybox_endpoint_failing_seconds',
        jsonb_build_object('stream', e.stream, 'subscription', e.subscription),
        relaybox_internal.age_seconds(e.failing_since)
    from relaybox_internal.failing_endpoints() e
    union all
    select
        'relaybox_retention_held_seconds',
        jsonb_build_object('kind', 'subscription', 'holder', d.subscription),
        relaybox_internal.held_seconds(d.furthest_behind, d.since)
    from delays d
    where exists (
        select from relaybox_internal.stream_log l
        join relaybox_internal.hop_in i on i.log_id = l.log_id
        where l.stream_id = d.stream_id and i.stopped_consumer = 'alarm'
    )
    union all
    select
        'relaybox_retention_held_seconds',
        jsonb_build_object('kind', 'subscription', 'holder', d.subscription),
        relaybox_internal.held_seconds(
            due.last_stream_position - greatest(
                s.last_stream_position - d.furthest_behind, s.first_kept_stream_position - 1
            ),
            d.since + make_interval(secs => due.after_seconds)
        )
    from delays d
    join relaybox_internal.stream s on s.stream_id = d.stream_id
    cross join lateral relaybox_internal.detachable_through(d.stream_id) due
$$;
