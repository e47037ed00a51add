-- Refuses a place of a stream whose message is detached (RB038): says in which files it lies, and how it comes back. Returns for any other.
create or replace function relaybox.refuse_detached(known relaybox.stream, place_ bigint, who text) returns void
language plpgsql stable
as $$
declare
    at record;
begin
    if place_ <= known.dropped_place or place_ >= known.first_kept_place then
        return;
    end if;
    with stands as (
        select d.hop_id, coalesce(d.positions[place_ - d.first_place + 1], d.first_position + place_ - d.first_place) as position
        from relaybox.delivery d
        where d.stream_id = known.stream_id and d.last_place >= place_
        order by d.last_place limit 1
    )
    select i.hop, d.directory, sum(d.row_count) over (partition by d.hop_id) as messages, count(*) over (partition by d.hop_id) as segments into at
    from relaybox.detached_segment d
    join relaybox.stream_log l on l.hop_id = d.hop_id
    join relaybox.hop_in i on i.hop_id = d.hop_id
    left join stands s on s.hop_id = d.hop_id and s.position between d.first and d.last
    where l.stream_id = known.stream_id and d.state = 'detached'
    order by s.position nulls last, d.first
    limit 1;
    if not found then
        return;
    end if;
    raise exception using errcode = 'RB038',
        message = format('%s: place %s is detached, its message lies in %s; the first place here is %s', who, place_, at.directory, known.first_kept_place),
        hint = format(
            'Bring it back: relaybox attach %s %s (%s segments, %s messages). Nothing is lost, and no cursor has moved.',
            (select s.store from relaybox.store s), at.hop, at.segments, at.messages
        );
end
$$;
