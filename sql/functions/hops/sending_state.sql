-- Returns what the source has of a hop that leaves it: what is planned, confirmed and settled, and
-- what waits to be moved. Waiting rows are counted by index, from the hop's newest snapshot to now,
-- never the whole outbox. No row: no such hop.
create or replace function relaybox_internal.sending_state(hop_name text)
returns table (
    planned_batch bigint, planned_position bigint, planned_rows bigint, planned_slices integer,
    planned_at timestamptz, received_batch bigint, received_position bigint,
    processed_position bigint, settled_position bigint, waiting_count bigint,
    oldest_sent_at timestamptz, oldest_seconds double precision, driven boolean, moved_by text,
    application text
)
language sql stable
set enable_seqscan = off
as $$
    select
        h.batch, h.log_position, newest.row_count, jsonb_array_length(newest.slices),
        newest.planned_at,
        coalesce(received.through_batch, 0), coalesce(received.through_position, 0),
        case when h.processed_by is not null then coalesce(processed.through_position, 0) end,
        coalesce(settled.through_position, 0),
        waiting.row_count, oldest.sent_at,
        greatest(extract(epoch from clock_timestamp() - oldest.sent_at), 0)::double precision,
        relaybox_internal.hop_is_driven(h.hop), attempt.recorded_by, attempt.application
    from relaybox_internal.hop_out h
    left join relaybox_internal.batch newest on newest.hop = h.hop and newest.batch = h.batch
    left join lateral (
        select a.recorded_by, a.application from relaybox_internal.attempt a
        where a.hop = h.hop and a.batch = h.batch order by a.attempt desc limit 1
    ) attempt on true
    left join lateral relaybox_internal.newest_confirmation(h.hop, 'received') received on true
    left join lateral relaybox_internal.newest_confirmation(h.hop, 'processed') processed on true
    left join lateral relaybox_internal.newest_confirmation(h.hop, 'settled') settled on true
    cross join lateral (
        select coalesce(sum(w.row_count), 0)::bigint as row_count, min(w.first_read) as first_read
        from (
            select o.row_count, o.first_seq as first_read
            from relaybox_internal.outbox_waiting(h.hop) o
            union all
            select u.last_read - u.first_read + 1, u.first_read
            from relaybox_internal.log_unread(h.hop) u
        ) w
    ) waiting
    left join lateral (
        select case
            when h.batch > coalesce(received.through_batch, 0)
                then (newest.slices -> 0 ->> 1)::bigint
            else waiting.first_read
        end as first_read
    ) unreceived on true
    left join lateral (
        select o.sent_at
        from relaybox_internal.sent_row(unreceived.first_read) o where h.reads_log is null
        union all
        select l.sent_at from relaybox_internal.log_row(h.reads_log, unreceived.first_read) l
        where h.reads_log is not null
    ) oldest on true
    where h.hop = hop_name
$$;
