-- The slices of the adopted batches of a hop that reads a log: one slice per run of positions that
-- follow each other in both logs. Reads the temporary table relaybox_adopted. Inlined in
-- adopt_reads().
create or replace function relaybox_internal.slice_adopted_reads(hop_name text, common_batch bigint)
returns table (batch bigint, slices jsonb)
language sql stable
as $$
    with matched as (
        select b.batch, a.log_position, a.reads,
            a.log_position - row_number() over (
                partition by b.batch, a.reads - a.log_position order by a.log_position
            ) as run
        from relaybox_internal.batch b
        join relaybox_adopted a
            on a.log_position >= b.first_position and a.log_position <= b.last_position
        where b.hop = hop_name and b.batch > common_batch and a.reads is not null
    ), numbered as (
        select m.batch, min(m.reads) as first_read, max(m.reads) as last_read,
            min(m.log_position) as first_position, count(*) as row_count,
            row_number() over (partition by m.batch order by min(m.log_position)) as slice
        from matched m
        group by m.batch, m.reads - m.log_position, m.run
    )
    select n.batch, jsonb_agg(
        jsonb_build_array(n.slice, n.first_read, n.last_read, n.first_position, n.row_count)
        order by n.slice
    )
    from numbered n
    group by n.batch
$$;
