-- Batches in the source ledger of a hop that contradict the hop, their own slices or the
-- generations on record: a sentence for each, with the numbers of both sides. Inlined in
-- source_contradictions().
create or replace function relaybox_internal.find_wrong_batches(hop_name text) returns setof text
language sql stable
as $$
    with head as materialized (
        select * from relaybox_internal.hop_out h where h.hop = hop_name
    ), planned as materialized (
        select b.*, lag(b.generation) over (order by b.batch) as generation_before
        from relaybox_internal.batch b
        where b.hop = hop_name
    )
    select format(
        'ledger of the source: the hop stands at batch %s, position %s; '
        'its newest batch is %s and ends at position %s',
        h.batch, h.log_position, e.batch, e.log_position
    )
    from head h
    left join (select b.* from planned b order by b.batch desc limit 1) newest on true
    cross join lateral (
        select coalesce(newest.batch, h.compacted_batch) as batch,
            coalesce(newest.last_position, h.compacted_position) as log_position
    ) e
    where (h.batch, h.log_position) <> (e.batch, e.log_position)
    union all
    select format(
        'ledger of the source: batch %s has %s rows at positions %s to %s, read within (%s, %s]; '
        'its slices have %s rows at positions %s to %s, read from %s to %s',
        b.batch, b.row_count, b.first_position, b.last_position, b.reads_after, b.reads_through,
        s.row_count, s.first_position, s.last_position, s.first_read, s.last_read
    )
    from planned b
    cross join lateral relaybox_internal.span_slices(
        b.slices, b.first_position - 1, b.reads_after
    ) s
    where not b.adopted and (
        s.is_out_of_step or s.last_read > b.reads_through
        or (s.row_count, s.first_position, s.last_position)
        <> (b.row_count, b.first_position, b.last_position)
    )
    union all
    select format(
        'ledger of the source: batch %s is called adopted; no generation on record adopted it',
        b.batch
    )
    from planned b
    where b.adopted and not exists (
        select from relaybox_internal.generation g
        where g.hop = hop_name and b.batch between g.adopted_from and g.adopted_through
    )
    union all
    select format(
        'ledger of the source: batch %s is of generation %s, '
        'the one before it of generation %s, the hop of generation %s',
        b.batch, b.generation, b.generation_before, h.generation
    )
    from head h
    join planned b on b.generation < b.generation_before or b.generation > h.generation
$$;
