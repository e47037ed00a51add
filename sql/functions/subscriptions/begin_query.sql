-- The subscription of a streaming query, which makes it if the store does not have it. If the query
-- begins in detached messages, the subscription begins at the first kept one. Locks what
-- relaybox.subscribe() locks. Raises RB030 if the name belongs to another query, to a consumer, or
-- reads another stream, and what subscribe() raises.
create or replace function relaybox.begin_query(
    subscription text, stream_name text, first_stream_position bigint, query uuid
)
returns void
language plpgsql volatile security definer
set search_path = pg_catalog, relaybox, pg_temp
set row_security = off
as $$
declare
    subscribed relaybox_internal.subscription;
begin
    if begin_query.query is null then
        raise exception using errcode = 'RB036', message = 'begin_query takes the id of a query';
    end if;
    perform from relaybox_internal.subscription s
    where s.subscription = begin_query.subscription and s.ended_at is null;
    if not found then
        perform relaybox.subscribe(
            begin_query.subscription, stream_name, greatest(
                begin_query.first_stream_position, (
                    select s.first_kept_stream_position from relaybox_internal.stream s
                    where s.stream = stream_name
                        and s.dropped_stream_position < begin_query.first_stream_position
                )
            )::text,
            crash_limit => 2147483647, -- a query that is killed says nothing about its messages
            delayed => 'ignore'
        );
        update relaybox_internal.subscription s set query = begin_query.query
        where s.subscription = begin_query.subscription and s.ended_at is null;
        return;
    end if;
    subscribed := relaybox_internal.subscription_named(begin_query.subscription);
    if subscribed.query is distinct from begin_query.query then
        raise exception using errcode = 'RB030',
            message = format(
                'subscription %s belongs to %s, made by %s at %s', subscribed.subscription,
                case when subscribed.query is null then 'a consumer' else 'another query' end,
                subscribed.subscribed_by, subscribed.subscribed_at
            ),
            hint = format(
                'Give each query a subscription of its own. If that query will never run again: '
                'select relaybox.unsubscribe(%L, ''REASON'').', subscribed.subscription
            );
    end if;
    if not exists (
        select from relaybox_internal.stream t
        where t.stream_id = subscribed.stream_id and t.stream = stream_name
    ) then
        raise exception using errcode = 'RB030',
            message = format(
                'subscription %s does not read stream %s', subscribed.subscription, stream_name
            ),
            hint = 'A checkpoint is for one stream. Give the query of this stream its own.';
    end if;
end
$$;

comment on function relaybox.begin_query(text, text, bigint, uuid) is
'For the Spark format relaybox: makes the subscription of a streaming query, or finds it.
`subscription`: its name.
`stream_name`: the stream.
`first_stream_position`: the first one that the query reads.
`query`: the id of the query, from its checkpoint.
Errors: RB030 (the subscription belongs to another query or a consumer, or reads another stream), RB036 (an argument), and
    those of relaybox.subscribe().';
