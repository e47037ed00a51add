-- Refuses a stream position whose message is detached (RB038): says in which files it lies, and how it comes back. Returns for any other.
create or replace function relaybox_internal.refuse_detached(stream_ relaybox_internal.stream, stream_position_ bigint, who text) returns void
language plpgsql stable
as $$
declare
    at record;
begin
    if stream_position_ <= stream_.dropped_stream_position or stream_position_ >= stream_.first_kept_stream_position then
        return;
    end if;
    with stands as (
        select d.log_id, coalesce(d.log_positions[stream_position_ - d.first_stream_position + 1],
        d.first_position + stream_position_ - d.first_stream_position) as log_position
        from relaybox_internal.delivery d
        where d.stream_id = stream_.stream_id and d.last_stream_position >= stream_position_
        order by d.last_stream_position limit 1
    )
    select i.hop, d.directory, sum(d.row_count) over (partition by d.log_id) as messages, count(*) over (partition by d.log_id) as segments into at
    from relaybox_internal.detached_segment d
    join relaybox_internal.stream_log l on l.log_id = d.log_id
    join relaybox_internal.hop_in i on i.log_id = d.log_id
    left join stands s on s.log_id = d.log_id and s.log_position between d.first and d.last
    where l.stream_id = stream_.stream_id and d.state = 'detached'
    order by s.log_position nulls last, d.first
    limit 1;
    if not found then
        return;
    end if;
    raise exception using errcode = 'RB038',
        message = format('%s: stream position %s is detached, its message lies in %s; the first stream position here is %s', who, stream_position_,
        at.directory, stream_.first_kept_stream_position),
        hint = format(
            'Bring it back: relaybox attach %s %s (%s segments, %s messages). Nothing is lost, and no cursor has moved.',
            (select s.store from relaybox_internal.store s), at.hop, at.segments, at.messages
        );
end
$$;
