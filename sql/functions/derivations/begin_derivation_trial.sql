-- The open trial of a route, which begins it if there is none: the range is pinned, from start_ (by
-- default the first message that the store keeps) through through_, and within what the newest
-- version has derived from, after what only an older one has. Locks the row of the newest version.
-- Raises RB025 if the route has no version, this or a higher one, another stream, or an open trial of
-- another version, source or range;
-- RB036 if the version has derived from no message of the range, or (once) if a trial on which begun_by_
-- worked has ended: begun_by_ is one run then; and what relaybox.stream_range() raises.
create or replace function relaybox_internal.begin_derivation_trial(
    route_ text, version_ integer, stream_ text, source_name_ text, source_digest_ text,
    start_ text, through_ text, begun_by_ text, once boolean
)
returns relaybox_internal.derivation_trial
language plpgsql volatile
as $$
declare
    newest relaybox_internal.derivation := relaybox_internal.newest_derivation(route_);
    trial relaybox_internal.derivation_trial;
    first_ bigint;
    last_ bigint;
    of_older bigint; -- the last stream position of the range of which only an older version derived
    derived int8range; -- from the first to the last message that the newest version has derived from
begin
    if newest.version is null then
        raise exception using errcode = 'RB025',
            message = format('route %s has derived no message yet: there is nothing to compare with', route_),
            hint = format('Run relaybox derive %s first, or make the keys of next those of derive.', route_);
    end if;
    if newest.version >= version_ then
        raise exception using errcode = 'RB025',
            message = format(
                'the derivation of route %s is at version %s since %s, and next is version %s',
                route_, newest.version, newest.begun_at, version_
            ),
            hint = format(
                'To try another one, give next version %s. To make room in relaybox.yaml, move the '
                'keys of next up into derive.', newest.version + 1
            );
    end if;
    perform relaybox_internal.refuse_changed_derivation(
        newest, newest.version, stream_, source_name_, source_digest_, refuse_change => false
    );
    perform from relaybox_internal.derivation d
    where d.derivation_id = newest.derivation_id for no key update;
    if once then
        perform relaybox_internal.refuse_second_trial(route_, begun_by_);
    end if;
    trial := relaybox_internal.open_derivation_trial(route_);
    if trial.trial_id is not null then
        perform relaybox_internal.refuse_changed_trial(
            route_, trial, version_, source_name_, source_digest_, start_, through_
        );
        return trial;
    end if;
    select b.first_stream_position, b.last_stream_position into first_, last_
    from relaybox_internal.stream s
    cross join relaybox_internal.stream_positions_between(
        s.stream_id, coalesce(start_, 'earliest'), through_
    ) b
    where s.stream = stream_;
    select int8range(min(lower(a.stream_positions)), max(upper(a.stream_positions))) into derived
    from relaybox_internal.derivation_attempt a
    where a.derivation_id = newest.derivation_id and a.state = 'published';
    first_ := greatest(first_, lower(derived));
    last_ := least(last_, upper(derived) - 1);
    if first_ <= last_ then
        -- what an older version sent is not compared, and would be sent again
        select upper(
            int8multirange(int8range(first_, last_, '[]'))
            * coalesce(range_agg(r.run) filter (where d.version < newest.version), '{}')
            - coalesce(range_agg(r.run) filter (where d.version = newest.version), '{}')
        ) - 1 into of_older
        from relaybox_internal.derivation d
        join relaybox_internal.derivation_attempt a on a.derivation_id = d.derivation_id
        cross join unnest(a.stream_positions) r (run)
        where d.route = route_ and a.state = 'published'
            and a.stream_positions && int8range(first_, last_, '[]');
        first_ := greatest(first_, of_older + 1);
    end if;
    if (first_ <= last_ and upper(derived) is not null) is not true then
        raise exception using errcode = 'RB036',
            message = format(
                'version %s of the derivation of route %s has derived from no message of this range: '
                'it has derived from %s', newest.version, route_,
                case
                    when upper(derived) is null then 'none'
                    when of_older is not null then format('none after stream position %s, which an older version has', of_older)
                    else format('stream positions %s to %s', lower(derived), upper(derived) - 1)
                end
            ),
            hint = 'Give a range within these, or none.';
    end if;
    insert into relaybox_internal.derivation_trial (
        derivation_id, version, source_name, source_digest, asked_start, asked_through,
        first_stream_position, last_stream_position, done_stream_position, begun_by
    )
    values (
        newest.derivation_id, version_, source_name_, source_digest_, start_, through_,
        first_, last_, first_ - 1, begun_by_
    )
    returning * into strict trial;
    return trial;
end
$$;
