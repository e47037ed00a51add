-- The stream that a consumer reads after a stream position, in one snapshot: what is kept of it and
-- what is delivered. Raises RB032 for an unknown stream, RB034 for a stream position that is no
-- longer kept, RB038 for one that is detached.
create or replace function relaybox_internal.find_stream(
    stream_name text, after_stream_position bigint
)
returns relaybox_internal.stream
language plpgsql stable
as $$
declare
    found_stream relaybox_internal.stream;
begin
    select * into found_stream from relaybox_internal.stream s where s.stream = stream_name;
    if not found then
        raise exception using errcode = 'RB032',
            message = format('there is no stream %s in this store', left(stream_name, 70)),
            hint = 'Known here: ' || coalesce((
                select string_agg(s.stream, ', ' order by s.stream) from relaybox_internal.stream s
            ), 'none') || '.';
    end if;
    if after_stream_position > 0
        and after_stream_position < found_stream.first_kept_stream_position - 1 then
        perform relaybox_internal.refuse_detached(
            found_stream, after_stream_position + 1, format('stream %s', stream_name)
        );
        raise exception using errcode = 'RB034',
            message = format(
                'stream %s: stream position %s is no longer kept; the first one is %s',
                stream_name, after_stream_position + 1, found_stream.first_kept_stream_position
            ),
            hint = format(
                'Read after stream position 0 for all that is kept, or after %s.',
                found_stream.first_kept_stream_position - 1
            );
    end if;
    return found_stream;
end
$$;
