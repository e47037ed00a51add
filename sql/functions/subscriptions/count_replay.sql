-- Counts what a replay with a second cursor would read: replay() with dry_run, for logins that may
-- only read. Changes nothing.
create or replace function relaybox.count_replay(
    subscription text, start text, through text default null,
    rows_per_second integer default null,
    out replayed_as text, out first_stream_position bigint, out last_stream_position bigint,
    out message_count bigint, out byte_count bigint, out estimated_seconds double precision
)
language sql volatile security definer
set search_path = pg_catalog, relaybox, pg_temp
set row_security = off
as $$
    select * from relaybox.replay(
        subscription, start, 'counted', through,
        second_cursor => true, rows_per_second => rows_per_second, dry_run => true
    )
$$;

comment on function relaybox.count_replay(text, text, text, integer) is
'Counts what a replay with a second cursor would read. For logins that may only read. Changes
nothing.
`subscription`: its name. `start`, `through`, `rows_per_second`: as in replay().
Returns `replayed_as`, `first_stream_position`, `last_stream_position`, `message_count`,
    `byte_count`, `estimated_seconds`, as replay() does.
Errors: RB031 (not subscribed), RB034 (no longer kept), RB036 (a value that is not allowed),
    RB038 (detached), RB040 (bound to other roles).';
