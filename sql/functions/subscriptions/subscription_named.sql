-- The subscription of that name. is_ending: the caller ends it, and needs no advice to subscribe.
-- is_reading: the caller changes nothing. gives_messages: the caller returns messages, or has them
-- given again. is_operating: the caller does what operators of the stream may do too. Raises RB040 if
-- the caller may not use this name, before it looks for it; RB031; RB041
-- if the messages have topics that the caller may not read; RB036 if this server would give senders
-- other lanes than the one it was made on; 42501 below a maintenance command.
create or replace function relaybox_internal.subscription_named(
    name text, is_ending boolean default false, is_reading boolean default false,
    gives_messages boolean default false, is_operating boolean default false
)
returns relaybox_internal.subscription
language plpgsql stable
as $$
declare
    subscription_ relaybox_internal.subscription;
    binds_subscriptions boolean;
    binds_topics boolean;
begin
    perform relaybox_internal.refuse_borrowed_session();
    select s.bind_subscriptions, s.bind_topics into binds_subscriptions, binds_topics
    from relaybox_internal.store s;
    if binds_subscriptions then
        perform relaybox_internal.require_subscription_role(name, is_reading, is_operating);
    end if;
    select * into subscription_ from relaybox_internal.subscription s
    where s.subscription = name and s.ended_at is null;
    if not found then
        raise exception using errcode = 'RB031',
            message = format('there is no subscription %s in this store', left(name, 70)),
            hint = format(
                '%sKnown here: %s.',
                case
                    when is_ending then ''
                    when relaybox_internal.is_second_cursor_name(name)
                        then 'A replay of this name has ended, or was never begun. '
                    else format(
                        'Subscribe first: select relaybox.subscribe(%L, ''STREAM''). ',
                        left(name, 70)
                    )
                end,
                coalesce((
                    select string_agg(s.subscription, ', ' order by s.subscription)
                    from relaybox.subscriptions s
                ), 'none')
            );
    end if;
    if binds_topics and gives_messages then
        perform relaybox_internal.require_topics(subscription_.stream_id, subscription_.topic);
    end if;
    if subscription_.lanes > 1
        and subscription_.lane_hash <> hashtextextended('relaybox', 0) then
        raise exception using errcode = 'RB036',
            message = format(
                'subscription %s has %s lanes, and this server''s hash function would give its '
                'senders other lanes',
                name, subscription_.lanes
            ),
            hint = 'Let the old server finish the subscription, or unsubscribe and subscribe anew '
                'at the stream position up to which all lanes are done.';
    end if;
    return subscription_;
end
$$;
