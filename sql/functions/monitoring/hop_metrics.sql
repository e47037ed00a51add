-- Metrics of the hops that leave this store.
create or replace function relaybox_internal.hop_metrics()
returns table (metric text, labels jsonb, value double precision)
language sql stable
as $$
    with hops as materialized (select * from relaybox_internal.hop_progress())
    select
        'relaybox_watermark_age_seconds',
        jsonb_build_object('hop', h.hop, 'watermark', 'received'),
        relaybox_internal.age_seconds(h.unreceived_since)
    from hops h
    union all
    select
        'relaybox_watermark_age_seconds',
        jsonb_build_object('hop', h.hop, 'watermark', 'settled'),
        relaybox_internal.age_seconds(
            case when h.unsettled_since is not null
                then greatest(h.unsettled_since, h.settled_at)
            end
        )
    from hops h
    union all
    select
        'relaybox_hop_unsettled_messages', jsonb_build_object('hop', h.hop),
        coalesce(h.received_position, 0) - coalesce(h.settled_position, 0)
    from hops h
    union all
    select
        'relaybox_hop_progress_timestamp_seconds', jsonb_build_object('hop', h.hop),
        extract(epoch from h.progress_at)
    from hops h
    where h.progress_at is not null
$$;
