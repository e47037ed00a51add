-- The first position of a log that the replay window of its stream keeps; 0: no window is set,
-- everything is kept. The longest window counts for all logs of a stream, since their stream
-- positions are one sequence.
create or replace function relaybox_internal.replay_window_from(log_id_ integer) returns bigint
language sql stable
as $$
    select case
        when w.seconds is null then 0
        else least(
            relaybox_internal.first_position_after(w.stream_id, log_id_, least(
                (
                    select coalesce(max(d.last_stream_position), 0)
                    from relaybox_internal.stream_log l
                    join relaybox_internal.decision d on d.log_id = l.log_id
                    where l.stream_id = w.stream_id
                        and d.decided_at <= now() - make_interval(secs => w.seconds)
                ),
                (
                    select min(late.after_stream_position)
                    from relaybox_internal.late_delivery late
                    where late.stream_id = w.stream_id
                        and late.delivered_at > now() - make_interval(secs => w.seconds)
                )
            )),
            (
                select min(a.first_position) from relaybox_internal.arrival a
                where a.log_id = log_id_
                    and a.published_at > now() - make_interval(secs => w.seconds)
            )
        )
    end
    from (
        select
            min(own.stream_id) as stream_id,
            case
                when bool_or(i.replay_window_seconds is null) then null
                else max(i.replay_window_seconds)
            end as seconds
        from relaybox_internal.stream_log own
        join relaybox_internal.stream_log l on l.stream_id = own.stream_id
        join relaybox_internal.hop_in i on i.log_id = l.log_id
        where own.log_id = log_id_
    ) w
$$;
