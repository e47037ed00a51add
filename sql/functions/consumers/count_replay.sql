-- What a replay with a second cursor would read: as replay() with dry_run, for logins that may read only. Changes nothing.
-- Raises RB031, RB034, RB036, RB038.
create or replace function relaybox.count_replay(
    subscription text, start text, through text default null, rows_per_second integer default null,
    out replayed_as text, out first_place bigint, out last_place bigint, out message_count bigint, out byte_count bigint,
    out estimated_seconds double precision
)
language sql volatile security definer
set search_path = pg_catalog, relaybox, pg_temp
as $$
    select * from relaybox.replay(subscription, start, 'counted', through, second_cursor => true, rows_per_second => rows_per_second, dry_run => true)
$$;
