-- Where a hop contradicts the generations and attempts on record at its source: a sentence for
-- each, with the numbers of both sides. Inlined in source_contradictions().
create or replace function relaybox_internal.find_wrong_generations(hop_name text)
returns setof text
language sql stable
as $$
    with recorded as materialized (
        select coalesce(max(g.generation), 1) as newest
        from relaybox_internal.generation g
        where g.hop = hop_name
    )
    select format(
        'ledger of the source: generation %s found %s ghosts, %s are listed',
        g.generation, g.ghost_count, l.listed_count
    )
    from relaybox_internal.generation g
    cross join recorded r
    cross join lateral (
        select count(*) as listed_count
        from relaybox_internal.ghost k
        where k.hop = hop_name and k.generation = g.generation
    ) l
    -- a newer generation lists the ghosts of an older one again
    where g.hop = hop_name and (
        l.listed_count > g.ghost_count
        or l.listed_count < g.ghost_count and g.generation = r.newest
    )
    union all
    select format(
        'ledger of the source: the hop is in generation %s, the newest one on record is %s',
        h.generation, r.newest
    )
    from relaybox_internal.hop_out h cross join recorded r
    where h.hop = hop_name and h.generation <> r.newest
    union all
    select format(
        'ledger of the source: the hop is at attempt %s, attempt %s is on record', h.attempt,
        a.attempt
    )
    from relaybox_internal.hop_out h
    cross join lateral (
        select max(k.attempt) as attempt from relaybox_internal.attempt k where k.hop = hop_name
    ) a
    where h.hop = hop_name and a.attempt > h.attempt
$$;
