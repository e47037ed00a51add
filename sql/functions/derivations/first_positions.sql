-- The first stream positions of a multirange, at most so many.
create or replace function relaybox_internal.first_positions(
    positions int8multirange, max_count bigint
)
returns int8multirange
language sql immutable
as $$
    select range_agg(int8range(
        lower(p.run), least(upper(p.run), lower(p.run) + max_count - p.before)
    ))
    from (
        select
            run,
            sum(upper(run) - lower(run)) over (order by lower(run))::bigint
            - (upper(run) - lower(run)) as before
        from unnest(positions) run
    ) p
    where p.before < max_count
$$;
