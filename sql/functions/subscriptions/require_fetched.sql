-- Refuses a stream position that the newest fetch of a lane did not return, or that is acknowledged
-- already: RB033.
create or replace function relaybox_internal.require_fetched(
    cursor_ relaybox_internal.cursor, subscription_ relaybox_internal.subscription,
    stream_position_ bigint
)
returns void
language plpgsql stable
as $$
declare
    lane_name text := format(
        'subscription %s, lane %s', subscription_.subscription, cursor_.lane
    );
    rest text := case
        when cursor_.worker is null then format(
            'the lane is acknowledged through stream position %s', cursor_.done_stream_position
        )
        when cursor_.redrive_stream_position is not null then format(
            'still to acknowledge: redriven dead letters up to stream position %s',
            cursor_.redrive_stream_position
        )
        else format(
            'still to acknowledge: stream positions %s to %s',
            cursor_.done_stream_position + 1, cursor_.fetched_stream_position
        )
    end;
begin
    if cursor_.worker is not null
        and stream_position_
        <= coalesce(cursor_.redrive_stream_position, cursor_.fetched_stream_position)
        and (
            cursor_.redrive_stream_position is not null
            or stream_position_ > cursor_.done_stream_position
        ) then
        return;
    end if;
    if stream_position_ between 1 and cursor_.done_stream_position
        and (cursor_.worker is null or cursor_.redrive_stream_position is null) then
        raise exception using errcode = 'RB033',
            message = format(
                '%s: stream position %s is acknowledged already; '
                || 'the lane is acknowledged through stream position %s',
                lane_name, stream_position_, cursor_.done_stream_position
            ),
            hint = 'Roll back: this work is done. A repeated acknowledgement is refused, '
                || 'so that no work is done twice. '
                || case
                    when cursor_.worker is null then 'Then fetch what comes next.'
                    else format('Then go on: %s.', rest)
                end;
    elsif cursor_.worker is null and (
        cursor_.fetched_stream_position > cursor_.done_stream_position
        or cursor_.redrive_stream_position is not null
    ) then
        raise exception using errcode = 'RB033',
            message = format(
                '%s: this fetch ended with a nack or release; '
                || 'its other messages come with the next fetch', lane_name
            ),
            hint = 'Roll back and fetch again. Acknowledge what is done '
                || 'before you refuse a message or give the lane back.';
    end if;
    raise exception using errcode = 'RB033',
        message = format(
            '%s: stream position %s was not in this fetch; %s',
            lane_name, coalesce(stream_position_::text, 'null'), rest
        ),
        hint = 'Give the stream position of a message that this fetch returned: '
            || 'that of the last one whose work is done.';
end
$$;
