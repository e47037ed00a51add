-- Makes the lanes of a new subscription, each with a cursor that stands before its first place.
create or replace function relaybox.open_lanes(id integer, lanes integer, first_place bigint, replay_place bigint default 0) returns void
language sql volatile
as $$
    with opened as (
        insert into relaybox.lane (subscription_id, lane) select id, n from generate_series(1, lanes) n returning lane
    )
    insert into relaybox.cursor (subscription_id, lane, version, done_place, fetched_place, replay_place)
    select id, opened.lane, 1, first_place - 1, first_place - 1, replay_place from opened
$$;
