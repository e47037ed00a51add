-- Metrics of what this store keeps, and of the hops that keep a segment or more from being dropped
-- on a route that wants an alarm for it.
create or replace function relaybox_internal.retention_metrics()
returns table (metric text, labels jsonb, value double precision)
language sql stable
as $$
    select
        'relaybox_retention_held_seconds', jsonb_build_object('kind', 'hop', 'holder', p.hop),
        relaybox_internal.held_seconds(
            case
                when p.reads_log is null then p.planned_position - coalesce(p.settled_position, 0)
                else i.published_position - settled.through_position
            end,
            least(p.unsettled_since, p.unreceived_since, unread.published_at)
        )
    from relaybox_internal.hop_progress() p
    left join relaybox_internal.hop_in i on i.log_id = p.reads_log
    left join lateral relaybox_internal.settled_reading(p.hop) settled on p.reads_log is not null
    left join lateral (
        select a.published_at from relaybox_internal.arrival a
        where a.log_id = p.reads_log and a.last_position > settled.through_position
        order by a.batch limit 1
    ) unread on true
    where p.stopped_consumer = 'alarm'
    union all
    select
        'relaybox_detached_messages', jsonb_build_object('hop', i.hop),
        coalesce(sum(d.row_count), 0)
    from relaybox_internal.hop_in i
    left join relaybox_internal.detached_segment d
        on d.log_id = i.log_id and d.state = 'detached'
    group by i.hop
    union all
    select
        'relaybox_retention_segments', jsonb_build_object('table', coalesce(i.hop, 'outbox')),
        count(*)
    from relaybox_internal.segments() g
    left join relaybox_internal.hop_in i on i.log_id = g.log_id
    group by i.hop
    union all
    select 'relaybox_retention_first_kept', '{"table": "outbox"}', s.first_kept_seq
    from relaybox_internal.store s
    union all
    select
        'relaybox_retention_first_kept', jsonb_build_object('table', i.hop), i.first_kept_position
    from relaybox_internal.hop_in i
$$;
