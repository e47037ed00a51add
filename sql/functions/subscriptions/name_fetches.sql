-- For an acknowledgement without a token: names the newest three fetches of a subscription that
-- wait for theirs, or says that none does.
create or replace function relaybox_internal.name_fetches(
    subscription_ relaybox_internal.subscription
)
returns text
language sql stable
as $$
    select coalesce(string_agg(
        case
            when f.redrive_stream_position is null
                then format(
                    'worker %s fetched stream positions %s to %s of lane %s at %s',
                    f.worker, f.done_stream_position + 1, f.fetched_stream_position, f.lane,
                    f.moved_at
                )
            else format(
                'worker %s fetched redriven dead letters of lane %s at %s',
                f.worker, f.lane, f.moved_at
            )
        end, '; ' order by f.moved_at desc
    ) || ', in another transaction. ', 'No fetch waits for an acknowledgement. ')
    from (
        select k.* from relaybox_internal.lane_cursors k
        where k.subscription_id = subscription_.subscription_id and k.worker is not null
            and k.fetched_in is distinct from pg_current_xact_id_if_assigned()
        order by k.moved_at desc
        limit 3
    ) f
$$;
