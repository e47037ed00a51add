-- Raises a NOTICE if a replay has nothing to read: no stream position in the range, or no message
-- of the subscription in a sample of it.
create or replace function relaybox_internal.warn_of_empty_range(
    subscription_ relaybox_internal.subscription,
    first_stream_position bigint, last_stream_position bigint,
    second_cursor boolean, message_count bigint
)
returns void
language plpgsql stable
as $$
begin
    if last_stream_position < first_stream_position then
        raise notice
            'subscription %: nothing to replay from stream position %: %; nothing was changed',
            subscription_.subscription, first_stream_position,
            case
                when second_cursor then format(
                    'the end of the range is stream position %s', last_stream_position
                )
                else format('it is done through stream position %s', last_stream_position)
            end;
    elsif message_count = 0 then
        raise notice
            'subscription %: no message for it was found '
            'in a sample of the stream positions % to %',
            subscription_.subscription, first_stream_position, last_stream_position;
    end if;
end
$$;
