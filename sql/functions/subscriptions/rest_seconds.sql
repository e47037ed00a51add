-- How long a worker that found nothing and listens need not look: until a lease or a pause ends, or a
-- delayed message is due. A lane that is behind and free was held by an open transaction, or its
-- replay waits for its rate. A lane with redriven messages is behind, too.
-- Locks nothing.
create or replace function relaybox.rest_seconds(
    subscription text, only_lane integer default null, longest double precision default 10
)
returns double precision
language plpgsql volatile security definer
set search_path = pg_catalog, relaybox, pg_temp
set row_security = off
as $$
declare
    subscription_ relaybox_internal.subscription
    := relaybox_internal.subscription_named(rest_seconds.subscription, is_reading => true);
begin
    return (
        select least(longest, min(greatest(0, case
            when relaybox_internal.has_time_left(c.wait_until, subscription_.retry_seconds)
                then extract(epoch from c.wait_until - clock_timestamp())
            when relaybox_internal.has_time_left(c.leased_until, subscription_.lease_seconds)
                then extract(epoch from c.leased_until - clock_timestamp())
            else least(
                case
                    when reach.has_redriven then 1
                    when reach.has_new
                        then coalesce(relaybox_internal.rest_until_due(c.due_at), 1)
                end,
                relaybox_internal.rest_until_due(passed.due_at)
            )
        end)))
        from relaybox_internal.lane_cursors c
        join relaybox_internal.stream s on s.stream_id = subscription_.stream_id
        cross join lateral (
            select c.done_stream_position
                < least(subscription_.through_stream_position, s.last_stream_position)
                as has_new,
                exists (
                    select from relaybox_internal.dead_letter d
                    where d.subscription_id = c.subscription_id and d.lane = c.lane
                        and d.state = 'redriving'
                ) as has_redriven
        ) reach
        cross join lateral (
            select min(d.due_at) as due_at from relaybox_internal.dead_letter d
            where s.has_delay and d.subscription_id = c.subscription_id and d.lane = c.lane
                and d.state = 'delayed'
        ) passed
        where c.subscription_id = subscription_.subscription_id
            and c.lane = coalesce(only_lane, c.lane)
            and (reach.has_new or reach.has_redriven or passed.due_at is not null)
    );
end
$$;

comment on function relaybox.rest_seconds(text, integer, double precision) is
'How many seconds a worker that listens and found nothing may wait before it looks by itself: until a
lease or a pause after a refusal ends, or a delayed message is due, 1 while a free lane is behind, else
`longest`.
`subscription`: its name. `only_lane`: that of the worker; null: any.
`longest`: the answer where nothing is due; a notification may be lost, so do look.
Errors: RB031 (not subscribed), RB040 (bound to other roles).';
