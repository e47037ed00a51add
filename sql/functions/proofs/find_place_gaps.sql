-- Where the places of a stream are not 1, 2, 3 ...: each run begins after the one before it, and the last one ends at last_place.
-- Inlined in check_stream().
create or replace function relaybox.find_place_gaps(stream_name text)
returns table (kind text, at bigint, example text)
language sql stable
as $$
    with own_stream as materialized (
        select * from relaybox.stream s where s.stream = stream_name
    ), delivery_run as (
        select greatest(d.first_place, o.first_kept_place) as first_place,
            lag(d.last_place, 1, o.first_kept_place - 1) over (order by d.last_place) as previous_place
        from relaybox.delivery d join own_stream o on o.stream_id = d.stream_id and d.last_place >= o.first_kept_place
        union all
        select o.last_place + 1, coalesce(max(d.last_place), o.first_kept_place - 1)
        from own_stream o left join relaybox.delivery d on d.stream_id = o.stream_id and d.last_place >= o.first_kept_place
        group by o.last_place, o.first_kept_place
    )
    select 'places_not_dense', r.previous_place, format('place %s follows place %s', r.first_place, r.previous_place)
    from delivery_run r where r.first_place <> r.previous_place + 1
$$;
