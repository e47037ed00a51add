-- Says why a token of a lane is not that of its newest fetch: what happened since, and what to do.
-- Always raises: RB035, or RB033 for a token of no recorded fetch, or 40001 if the transaction's
-- snapshot is older than the lane's newest cursor. Caller: holds the lane.
create or replace function relaybox_internal.refuse_token(
    cursor_ relaybox_internal.cursor, subscription_ relaybox_internal.subscription, token_ text
)
returns void
language plpgsql volatile
as $$
declare
    lane_name text
    := format('subscription %s, lane %s', subscription_.subscription, cursor_.lane);
    fetched relaybox_internal.cursor;
begin
    select * into fetched from relaybox_internal.cursor k
    where k.subscription_id = cursor_.subscription_id and k.lane = cursor_.lane
        and k.token = token_
    order by k.version limit 1;
    if not found then
        if current_setting('transaction_isolation') <> 'read committed' then
            -- 40001 if the snapshot is too old to see the fetch; else the error below undoes it
            perform relaybox_internal.move_cursor(cursor_);
        end if;
        raise exception using errcode = 'RB033',
            message = format('%s: no fetch on record gave the token %s', lane_name, token_),
            hint = 'Its transaction was rolled back, or another subscription or store gave it, '
                || 'or the lane has moved on long since. Roll back and fetch again.';
    end if;
    if cursor_.token is null then
        raise exception using errcode = 'RB035',
            message = format(
                '%s: worker %s fetched at %s, and since then %s',
                lane_name, fetched.worker, fetched.moved_at,
                case
                    when cursor_.redrive_stream_position is not null
                        then 'more dead letters of the lane were redriven or dropped'
                    else 'a replay, or its end, has put the lane to another stream position'
                end
            ),
            hint = 'Roll back and fetch again: '
                || 'the messages come again where they are still wanted.';
    end if;
    perform relaybox_internal.refuse_older_fetch(lane_name, fetched, cursor_, subscription_);
end
$$;
