-- Refuses a fetch of no message, and a token without the stream position that it acknowledges:
-- RB036.
create or replace function relaybox_internal.require_fetch_arguments(
    subscription_ relaybox_internal.subscription, max_count integer,
    acked_stream_position bigint, acked_token text
)
returns void
language plpgsql stable
as $$
begin
    perform relaybox_internal.require_count(max_count);
    if acked_token is not null and acked_stream_position is null then
        raise exception using errcode = 'RB036',
            message = format(
                'subscription %s: acked_token without acked_stream_position acknowledges nothing',
                subscription_.subscription
            ),
            hint = 'Give the stream position up to which the work is done, or no token.';
    end if;
end
$$;
