-- Says which fetch of a lane replaced an older one, by which worker, and why it could. Always
-- raises RB035.
create or replace function relaybox_internal.refuse_older_fetch(
    lane_name text, fetched relaybox_internal.cursor,
    cursor_ relaybox_internal.cursor, subscription_ relaybox_internal.subscription
)
returns void
language plpgsql stable
as $$
declare
    refetched relaybox_internal.cursor;
    lease_ended boolean;
begin
    select * into refetched from relaybox_internal.cursor k
    where k.subscription_id = cursor_.subscription_id and k.lane = cursor_.lane
        and k.token = cursor_.token
    order by k.version limit 1;
    if fetched.worker = refetched.worker then
        raise exception using errcode = 'RB035',
            message = format(
                '%s: this token is of the fetch at %s, but worker %s fetched again at %s, '
                || 'and only the newest fetch is acknowledged',
                lane_name, fetched.moved_at, fetched.worker, refetched.moved_at
            ),
            hint = 'Roll back, and go on with the newer fetch. If another process made it, '
                || 'both use one worker name: give each its own (worker => ...).';
    end if;
    lease_ended := fetched.moved_at + make_interval(secs => subscription_.lease_seconds)
    <= refetched.moved_at;
    raise exception using errcode = 'RB035',
        message = format(
            '%s: worker %s fetched at %s, and worker %s fetched from the lane at %s, after %s',
            lane_name, fetched.worker, fetched.moved_at, refetched.worker, refetched.moved_at,
            case
                when lease_ended
                    then format('the lease of %s seconds had ended', subscription_.lease_seconds)
                else 'the lane had been given back'
            end
        ),
        hint = 'Roll back and fetch again: the other worker does this work. ' || case
            when lease_ended
                then 'Longer work needs a longer lease_seconds, or smaller fetches.'
            else 'A call of release or a nack gave the lane back: acknowledge before that.'
        end;
end
$$;
