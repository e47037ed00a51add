-- Makes the lanes of a new subscription, each with a cursor before its first stream position.
create or replace function relaybox_internal.open_lanes(
    id integer, lanes integer, first_stream_position bigint,
    replay_stream_position bigint default 0
)
returns void
language sql volatile
as $$
    with opened as (
        insert into relaybox_internal.lane (subscription_id, lane)
        select id, n from generate_series(1, lanes) n returning lane
    )
    insert into relaybox_internal.cursor (
        subscription_id, lane, version, done_stream_position, fetched_stream_position,
        replay_stream_position
    )
    select
        id, opened.lane, 1, first_stream_position - 1, first_stream_position - 1,
        replay_stream_position
    from opened
$$;
