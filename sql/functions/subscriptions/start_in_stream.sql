-- The first stream position to read for a start: earliest, latest, a stream position, or a time (of
-- delivery in this store, which never goes back). What is kept begins where the given row of the
-- stream says. Raises RB034 for what is no longer kept, RB038 for what is detached, RB036 for a
-- start that does not exist or is in the future.
create or replace function relaybox_internal.start_in_stream(
    stream relaybox_internal.stream, start text
)
returns bigint
language plpgsql stable
as $$
begin
    perform relaybox_internal.require_length('the start', start, 100);
    if start is null then
        raise exception using errcode = 'RB036',
            message = format('stream %s: the start is null', stream.stream),
            hint = 'Give ''earliest'', ''latest'', a stream position such as 1200, '
                || 'or a time such as 2026-07-01 12:00+00.';
    end if;
    return case
        when start = 'earliest' then stream.first_kept_stream_position
        when start = 'latest' then stream.last_stream_position + 1
        when start ~ '^[0-9]{1,18}$'
            then relaybox_internal.start_at_number(stream, start)
        else relaybox_internal.start_at_time(stream, start)
    end;
end
$$;
