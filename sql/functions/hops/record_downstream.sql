-- Copies a confirmation of a hop further down the route into this store, so that the origin can
-- show the whole cascade.
create or replace function relaybox_internal.record_downstream(
    hop_name text, state_ text, through_position_ bigint, through_batch_ bigint,
    happened_at_ timestamptz, recorded_by_ text
)
returns void
language sql volatile
as $$
    insert into relaybox_internal.confirmation (
        hop, state, through_position, through_batch, happened_at, recorded_by
    )
    values (hop_name, state_, through_position_, through_batch_, happened_at_, recorded_by_)
    on conflict do nothing
$$;
