-- The confirmations of a hop beyond the given positions. Confirmations travel one store up by this.
create or replace function relaybox_internal.confirmations_after(
    hop_name text, received_after bigint, processed_after bigint, settled_after bigint
)
returns table (state text, through_position bigint, through_batch bigint, happened_at timestamptz)
language sql stable
as $$
    select c.state, c.through_position, c.through_batch, c.happened_at
    from relaybox_internal.confirmation c
    where c.hop = hop_name
        and c.through_position > case c.state
            when 'received' then received_after
            when 'processed' then processed_after
            else settled_after
        end
    order by c.state, c.through_position
$$;
