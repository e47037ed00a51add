-- The last stream position that a version of a derivation has done; null: its subscription ended
-- before stores kept that. During a replay: how far the replay is.
create or replace function relaybox_internal.derivation_done(
    derivation_ relaybox_internal.derivation
)
returns bigint
language sql volatile
as $$
    select coalesce((
        select min(c.done_stream_position) from relaybox_internal.lane_cursors c
        where c.subscription_id = s.subscription_id
    ), s.done_at_end)
    from relaybox_internal.subscription s
    where s.subscription_id = derivation_.subscription_id
$$;
