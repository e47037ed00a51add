-- Refuses a stream position whose message is detached: RB038 names the files and the command that
-- brings it back. Returns for any other stream position.
create or replace function relaybox_internal.refuse_detached(
    stream_ relaybox_internal.stream, stream_position_ bigint, who text
)
returns void
language plpgsql stable
as $$
declare
    files record;
begin
    if stream_position_ <= stream_.dropped_stream_position
        or stream_position_ >= stream_.first_kept_stream_position then
        return;
    end if;
    with message as (
        select
            d.log_id,
            coalesce(
                d.log_positions[stream_position_ - d.first_stream_position + 1],
                d.first_position + stream_position_ - d.first_stream_position
            ) as log_position
        from relaybox_internal.delivery d
        where d.stream_id = stream_.stream_id and d.last_stream_position >= stream_position_
        order by d.last_stream_position limit 1
    )
    select
        i.hop, d.directory,
        sum(d.row_count) over (partition by d.log_id) as messages,
        count(*) over (partition by d.log_id) as segments
    into files
    from relaybox_internal.detached_segment d
    join relaybox_internal.stream_log l on l.log_id = d.log_id
    join relaybox_internal.hop_in i on i.log_id = d.log_id
    left join message m on m.log_id = d.log_id and m.log_position between d.first and d.last
    where l.stream_id = stream_.stream_id and d.state = 'detached'
    order by m.log_position nulls last, d.first
    limit 1;
    if not found then
        return;
    end if;
    raise exception using errcode = 'RB038',
        message = format(
            '%s: stream position %s is detached, its message lies in %s; '
            || 'the first stream position here is %s',
            who, stream_position_, files.directory, stream_.first_kept_stream_position
        ),
        hint = format(
            'Bring it back: relaybox attach %s %s (%s segments, %s messages). '
            || 'Nothing is lost, and no cursor has moved.',
            (select s.store from relaybox_internal.store s), files.hop, files.segments,
            files.messages
        );
end
$$;
