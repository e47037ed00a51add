-- The stream position that a start of digits names. Raises RB034 if it is no longer kept, RB038 if
-- it is detached, RB036 for 0 and for one that does not exist yet.
create or replace function relaybox_internal.start_at_number(
    stream relaybox_internal.stream, start text
)
returns bigint
language plpgsql stable
as $$
declare
    first bigint := start::bigint;
begin
    if first = 0 then
        raise exception using errcode = 'RB036',
            message = format(
                'stream %s has no stream position %s: stream positions begin at 1',
                stream.stream, start
            ),
            hint = 'Start at ''earliest'' for all that is kept.';
    end if;
    perform relaybox_internal.refuse_detached(stream, first, format('stream %s', stream.stream));
    if first < stream.first_kept_stream_position then
        raise exception using errcode = 'RB034',
            message = format(
                'stream %s: stream position %s is no longer kept; the first one is %s',
                stream.stream, start, stream.first_kept_stream_position
            ),
            hint = 'Start at ''earliest'', or at a kept stream position.';
    end if;
    if first > stream.last_stream_position + 1 then
        raise exception using errcode = 'RB036',
            message = format(
                'stream %s: there is no stream position %s yet; the newest is %s',
                stream.stream, start, stream.last_stream_position
            ),
            hint = 'Start at ''latest'' for what will come.';
    end if;
    return first;
end
$$;
