-- The first confirmation that reached a position of a hop: when it was recorded here, and by which
-- login. No row: none has reached it. Inlined.
create or replace function relaybox_internal.confirmation_of(
    hop_name text, state_ text, log_position_ bigint
)
returns table (recorded_at timestamptz, recorded_by text)
language sql stable
as $$
    select c.recorded_at, c.recorded_by
    from relaybox_internal.confirmation c
    where c.hop = hop_name and c.state = state_ and c.through_position >= log_position_
    order by c.through_position
    limit 1
$$;
