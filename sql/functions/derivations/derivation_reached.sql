-- The last stream position that a version of a derivation has ever done, also while a replay goes
-- through its messages again, or after it was ended in one. Null as derivation_done().
create or replace function relaybox_internal.derivation_reached(
    derivation_ relaybox_internal.derivation
)
returns bigint
language sql volatile
as $$
    select greatest(
        relaybox_internal.derivation_done(derivation_),
        (
            select max(c.replay_stream_position) from relaybox_internal.lane_cursors c
            where c.subscription_id = derivation_.subscription_id
        ),
        (
            select max(upper(a.stream_positions)) - 1 from relaybox_internal.derivation_attempt a
            where a.derivation_id = derivation_.derivation_id and a.state = 'published'
        )
    )
$$;
