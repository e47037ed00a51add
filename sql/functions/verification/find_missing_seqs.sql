-- Ranges of seqs that the outbox does not have, although no record says that they were dropped, or
-- although its first and newest segment are around them: a sentence for each. Inlined in
-- outbox_contradictions().
create or replace function relaybox_internal.find_missing_seqs() returns setof text
language sql stable
as $$
    with segment as materialized (
        select s.first, s.last from relaybox_internal.segments() s where s.log_id is null
    )
    select format(
        'the outbox begins at seq %s; that seqs %s were dropped is not on record',
        s.first_kept_seq, missing.seqs
    )
    from relaybox_internal.store s
    cross join lateral (
        select int8multirange(int8range(1, s.first_kept_seq)) - coalesce((
            select range_agg(int8range(d.first, d.last, '[]'))
            from relaybox_internal.dropped_segment d where d.hop is null
        ), '{}') as seqs
    ) missing
    where missing.seqs <> '{}'
    union all
    select format(
        'the outbox begins at seq %s, its newest segment ends at seq %s; no segment has seqs %s',
        s.first_kept_seq, newest.last, missing.seqs
    )
    from relaybox_internal.store s
    cross join (select max(g.last) as last from segment g) newest
    cross join lateral (
        select int8multirange(int8range(s.first_kept_seq, newest.last + 1)) - (
            select range_agg(int8range(g.first, g.last, '[]')) from segment g
        ) as seqs
    ) missing
    where missing.seqs <> '{}'
$$;
