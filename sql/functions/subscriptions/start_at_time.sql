-- The first stream position that was delivered at a time or later. Raises RB036 for a text that is
-- no time, and for a time in the future: later than the clock of the store and than its newest
-- recorded delivery, which may be ahead of the clock. Raises RB034 if a message of that time is no
-- longer kept, RB038 if it is detached.
create or replace function relaybox_internal.start_at_time(
    stream relaybox_internal.stream, start text
)
returns bigint
language plpgsql stable
as $$
declare
    since timestamptz;
    first bigint;
begin
    begin
        since := start::timestamptz;
    exception when data_exception then
        raise exception using errcode = 'RB036',
            message = format(
                '%L is no start: give ''earliest'', ''latest'', a stream position such as 1200, '
                || 'or a time such as 2026-07-01 12:00+00', start
            );
    end;
    if since > clock_timestamp() and since > relaybox_internal.delivery_time(stream.stream_id) then
        raise exception using errcode = 'RB036',
            message = format(
                'stream %s: %s is in the future, the clock of this store says %s',
                stream.stream, start, clock_timestamp()
            ),
            hint = 'For what will come, start at ''latest''. '
                || 'An interval is replayed when it is over.';
    end if;
    first := relaybox_internal.first_delivered_since(stream.stream_id, since);
    if first < stream.first_kept_stream_position then
        perform relaybox_internal.refuse_detached(
            stream, first, format('stream %s, delivered since %s', stream.stream, start)
        );
        raise exception using errcode = 'RB034',
            message = format(
                'stream %s: of what was delivered since %s, '
                || 'the messages before stream position %s are no longer kept',
                stream.stream, start, stream.first_kept_stream_position
            ),
            hint = format(
                'Start at ''earliest'' or at stream position %s for what is kept, '
                || 'or at a later time.',
                stream.first_kept_stream_position
            );
    end if;
    return first;
end
$$;
