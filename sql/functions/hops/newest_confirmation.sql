-- How far a hop is received, processed or settled, as recorded in this store. No row: not at all.
-- Inlined: one look into the primary key.
create or replace function relaybox_internal.newest_confirmation(hop_name text, state_ text)
returns table (
    through_batch bigint, through_position bigint, happened_at timestamptz, recorded_at timestamptz
)
language sql stable
as $$
    select c.through_batch, c.through_position, c.happened_at, c.recorded_at
    from relaybox_internal.confirmation c
    where c.hop = hop_name and c.state = state_
    order by c.through_position desc
    limit 1
$$;
