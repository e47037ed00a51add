-- Refuses a replay under a name that no second cursor of this subscription can have, and the replay of
-- a replay: RB036.
create or replace function relaybox_internal.require_replayable(
    subscription_ relaybox_internal.subscription, cursor_name text
)
returns void
language plpgsql stable
as $$
begin
    if cursor_name ~ '^[a-z0-9_.-]{1,60}$' is not true then
        raise exception using errcode = 'RB036',
            message = format(
                'the name %L of a second cursor must be 1 to 60 of a-z 0-9 _ . -',
                left(cursor_name, 70)
            );
    end if;
    if relaybox_internal.is_second_cursor_name(cursor_name)
        and regexp_replace(cursor_name, '-[0-9]+$', '')
        <> relaybox_internal.second_cursor_name(subscription_.subscription) then
        raise exception using errcode = 'RB036',
            message = format(
                'the name %s is that of a second cursor of another subscription than %s',
                cursor_name, subscription_.subscription
            ),
            hint = format(
                'Give the name %s, or one that does not end in .replay or .replay-NUMBER.',
                relaybox_internal.second_cursor_name(subscription_.subscription)
            );
    end if;
    if subscription_.replay_of is not null then
        raise exception using errcode = 'RB036',
            message = format(
                'subscription %s is a replay itself, and a replay is not replayed',
                subscription_.subscription
            ),
            hint = 'Replay the subscription that it belongs to.';
    end if;
end
$$;
