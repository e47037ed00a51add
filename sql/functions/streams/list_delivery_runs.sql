-- The runs of a stream's places between two of them, in order, each cut to what is asked for: read_delivery_run() reads one. Inlined.
-- run_place: where the whole run begins, with first_position or with the first one of positions.
create or replace function relaybox.list_delivery_runs(stream_id_ integer, after_place bigint, through_place bigint)
returns table (
    first_place bigint, last_place bigint, run_place bigint, hop_id integer, hop text, first_position bigint, positions bigint[]
)
language sql stable
as $$
    select
        greatest(d.first_place, after_place + 1), least(d.last_place, through_place), d.first_place, d.hop_id, i.hop, d.first_position, d.positions
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
