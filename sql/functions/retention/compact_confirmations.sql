-- Removes the confirmations of a hop up to a position, and the copies of those of later hops,
-- where a newer one of the same hop and state exists. Caller holds the hop's row.
create or replace function relaybox_internal.compact_confirmations(
    hop_name text, through_position_ bigint
)
returns void
language sql volatile
as $$
    delete from relaybox_internal.confirmation c
    where split_part(c.hop, '/', 1) = split_part(hop_name, '/', 1)
        and c.through_position <= through_position_
        and (
            c.hop = hop_name
            or not exists (select from relaybox_internal.hop_out o where o.hop = c.hop)
        )
        and exists (
            select from relaybox_internal.confirmation newer
            where newer.hop = c.hop and newer.state = c.state
                and newer.through_position > c.through_position
        );
$$;
