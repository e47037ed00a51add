-- Returns what the source has of hops that leave it: what is planned, confirmed and settled, and what
-- waits to be moved. Waiting rows are counted by index, from the hops' newest snapshots to now, never
-- the whole outbox, and in one look for all of these hops. A hop that does not leave this store has no
-- row.
create or replace function relaybox_internal.sending_states(hop_names text[])
returns table (
    hop text, planned_batch bigint, planned_position bigint, planned_rows bigint, planned_slices integer,
    planned_at timestamptz, received_batch bigint, received_position bigint,
    processed_position bigint, settled_position bigint, waiting_count bigint,
    oldest_sent_at timestamptz, oldest_seconds double precision, driven boolean, moved_by text,
    application text
)
language sql stable
set enable_seqscan = off
as $$
    with waiting as materialized (
        select w.hop, w.row_count, w.first_seq as first_read
        from relaybox_internal.outbox_waiting(
            array(
                select h from relaybox_internal.hop_out h
                where h.hop = any(hop_names) and h.reads_log is null
            )
        ) w
        union all
        select h.hop, sum(u.last_read - u.first_read + 1)::bigint, min(u.first_read)
        from relaybox_internal.hop_out h
        cross join lateral relaybox_internal.log_unread(h.hop) u
        where h.hop = any(hop_names) and h.reads_log is not null
        group by h.hop
    ), driver as materialized (
        select distinct t.name from relaybox_internal.trusted_sessions() t
    ), state as materialized (
        select
            h.hop, h.reads_log, h.batch, h.log_position, newest.row_count,
            jsonb_array_length(newest.slices) as slice_count, newest.planned_at,
            coalesce(received.through_batch, 0) as received_batch,
            coalesce(received.through_position, 0) as received_position,
            case when h.processed_by is not null then coalesce(processed.through_position, 0) end as processed,
            coalesce(settled.through_position, 0) as settled, coalesce(w.row_count, 0) as waiting_count,
            case
                when h.batch > coalesce(received.through_batch, 0)
                    then (newest.slices -> 0 ->> 1)::bigint
                else w.first_read
            end as first_read,
            d.name is not null as driven, attempt.recorded_by, attempt.application
        from relaybox_internal.hop_out h
        left join waiting w on w.hop = h.hop
        left join driver d on d.name = 'relaybox ' || h.hop || ' driver'
        left join relaybox_internal.batch newest on newest.hop = h.hop and newest.batch = h.batch
        left join lateral (
            select a.recorded_by, a.application from relaybox_internal.attempt a
            where a.hop = h.hop and a.batch = h.batch order by a.attempt desc limit 1
        ) attempt on true
        left join lateral relaybox_internal.newest_confirmation(h.hop, 'received') received on true
        left join lateral relaybox_internal.newest_confirmation(h.hop, 'processed') processed on true
        left join lateral relaybox_internal.newest_confirmation(h.hop, 'settled') settled on true
        where h.hop = any(hop_names)
    ), oldest as materialized (
        select s.hop, o.sent_at
        from relaybox_internal.sent_times(
            array(select distinct s.first_read from state s where s.reads_log is null and s.first_read is not null)
        ) o
        join state s on s.first_read = o.seq and s.reads_log is null
        union all
        select s.hop, l.sent_at
        from state s
        cross join lateral relaybox_internal.log_row(s.reads_log, s.first_read) l
        where s.reads_log is not null and s.first_read is not null
    )
    select
        s.hop, s.batch, s.log_position, s.row_count, s.slice_count, s.planned_at,
        s.received_batch, s.received_position, s.processed, s.settled, s.waiting_count, o.sent_at,
        greatest(extract(epoch from clock_timestamp() - o.sent_at), 0)::double precision,
        s.driven, s.recorded_by, s.application
    from state s
    left join oldest o on o.hop = s.hop
$$;
