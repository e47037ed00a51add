-- Lists what is wrong within the destination ledger of a hop, in one snapshot: a sentence for each
-- contradiction, with the numbers of both sides. Returns no row if nothing is wrong. Reads no
-- message.
create or replace function relaybox_internal.destination_contradictions(hop_name text)
returns setof text
language sql stable
as $$
    with head as materialized (
        select * from relaybox_internal.hop_in i where i.hop = hop_name
    ), newest as (
        select a.* from relaybox_internal.arrival a where a.log_id = (select h.log_id from head h)
        order by a.batch desc limit 1
    ), gone as (
        -- positions that may be absent from the log
        select range_agg(int8range(d.first, d.last, '[]')) as log_positions
        from (
            select s.first, s.last from relaybox_internal.dropped_segment s where s.hop = hop_name
            union all
            select s.first, s.last from relaybox_internal.detached_segment s
            where s.log_id = (select h.log_id from head h) and s.state in ('detached', 'released')
        ) d
    ), segmented as (
        select range_agg(int8range(s.first, s.last, '[]')) as log_positions
        from relaybox_internal.segments() s where s.log_id = (select h.log_id from head h)
    )
    select format(
        'ledger of the destination: published is batch %s through position %s; '
        'the newest arrival is batch %s and ends at position %s',
        h.published_batch, h.published_position, e.batch, e.log_position
    )
    from head h
    left join newest n on true
    cross join lateral (
        select coalesce(n.batch, h.compacted_batch) as batch,
            coalesce(n.last_position, h.compacted_position) as log_position
    ) e
    where (h.published_batch, h.published_position) <> (e.batch, e.log_position)
    union all
    select format(
        'the log begins at position %s; '
        'that positions %s were dropped or detached is not on record',
        h.first_kept_position, missing.log_positions
    )
    from head h
    cross join gone g
    cross join lateral (
        select int8multirange(int8range(1, h.first_kept_position))
            - coalesce(g.log_positions, '{}') as log_positions
    ) missing
    where missing.log_positions <> '{}'
    union all
    select format(
        'the log begins at position %s and is published through position %s; '
        'no segment has positions %s',
        h.first_kept_position, h.published_position, missing.log_positions
    )
    from head h
    cross join segmented s
    cross join lateral (
        select int8multirange(int8range(
            h.first_kept_position, greatest(h.published_position + 1, h.first_kept_position)
        )) - coalesce(s.log_positions, '{}') as log_positions
    ) missing
    where missing.log_positions <> '{}'
$$;
