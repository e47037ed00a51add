-- Returns what the destination has of hops that arrive in it: what is published, which slices of the
-- next batch are copied and their plans. due_received and due_unique: rows and different positions that
-- have arrived of the batches up to one that the source has confirmed; confirmed_batches has one for
-- each of hop_names. A hop that does not arrive in this store has no row.
create or replace function relaybox_internal.receiving_states(hop_names text[], confirmed_batches bigint[])
returns table (
    hop text, generation integer, published_batch bigint, published_plan_id text, published_position bigint,
    published_at timestamptz, copied_slices integer[], copied_plan_ids text[],
    due_received bigint, due_unique bigint
)
language sql stable
as $$
    select
        i.hop, i.generation, i.published_batch, newest.plan_id::text, i.published_position,
        newest.published_at,
        array(
            select r.slice from relaybox_internal.receipt r
            where r.log_id = i.log_id and r.batch = i.published_batch + 1
            order by r.slice
        ),
        array(
            select distinct r.plan_id::text
            from relaybox_internal.receipt r
            where r.log_id = i.log_id and r.batch = i.published_batch + 1
        ),
        due.received + gone.log_positions, due.log_positions + gone.log_positions
    from unnest(hop_names, confirmed_batches) c (hop, batch)
    join relaybox_internal.hop_in i on i.hop = c.hop
    left join relaybox_internal.arrival newest on newest.log_id = i.log_id
        and newest.batch = i.published_batch
    cross join lateral (
        select
            coalesce(sum(a.row_count), 0)::bigint as received,
            coalesce((
                select sum(upper(run) - lower(run))
                from unnest(range_agg(int8range(a.first_position, a.last_position, '[]'))) run
            ), 0)::bigint as log_positions
        from relaybox_internal.arrival a
        where a.log_id = i.log_id and a.batch <= c.batch
    ) due
    -- removed ledgers were dense: as many rows as positions
    cross join lateral (
        select case
            when c.batch >= i.compacted_batch then i.compacted_position
            else 0
        end as log_positions
    ) gone
$$;
