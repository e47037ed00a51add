-- Records that a log is kept from first_ on again, and its stream from after the last stream
-- position that is still dropped or detached. Caller: lock_stream_and_hop().
create or replace function relaybox_internal.lower_first_kept(log_id_ integer, first_ bigint)
returns void
language sql volatile
as $$
    update relaybox_internal.hop_in i set first_kept_position = greatest(1, first_)
    where i.log_id = log_id_;
    update relaybox_internal.stream s
    set first_kept_stream_position = 1 + greatest(s.dropped_stream_position, (
        select max(relaybox_internal.last_stream_position_through(
            s.stream_id, detached.log_id, detached.last
        ))
        from (
            select d.log_id, max(d.last) as last
            from relaybox_internal.detached_segment d
            join relaybox_internal.stream_log l on l.log_id = d.log_id
            where l.stream_id = s.stream_id and d.state = 'detached'
            group by d.log_id
        ) detached
    ))
    where s.stream_id = (
        select l.stream_id from relaybox_internal.stream_log l where l.log_id = log_id_
    );
$$;
