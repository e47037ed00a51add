-- The runs of a stream's places between two of them, in order, each cut to what is asked for. Inlined. A run stands in its log either as a
-- range of positions, which read_position_range() reads, or as a list of them, which read_position_list() reads: positions is null for a
-- range, and for a list last_position says nothing.
create or replace function relaybox.list_delivery_runs(stream_id_ integer, after_place bigint, through_place bigint)
returns table (
    hop_id integer, hop text, first_place bigint, first_position bigint, last_position bigint, positions bigint[]
)
language sql stable
as $$
    select
        d.hop_id, i.hop, greatest(d.first_place, after_place + 1), d.first_position + greatest(after_place + 1 - d.first_place, 0),
        d.first_position + least(d.last_place, through_place) - d.first_place,
        d.positions[greatest(after_place + 1 - d.first_place, 0) + 1:least(d.last_place, through_place) - d.first_place + 1]
    from relaybox.delivery d
    left join relaybox.hop_in i on i.hop_id = d.hop_id
    where d.stream_id = stream_id_ and d.last_place > after_place and d.last_place <= coalesce(
        -- the run that reaches the last place: the first one that ends there or beyond
        (
            select e.last_place from relaybox.delivery e
            where e.stream_id = stream_id_ and e.last_place >= through_place
            order by e.last_place
            limit 1
        ),
        through_place
    )
    order by d.last_place
$$;
