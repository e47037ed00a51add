-- Decisions of a stream that do not match the batches that have arrived: a batch without a
-- decision, a wrong count, or arrival numbers that do not follow each other. Inlined in
-- check_decisions().
create or replace function relaybox_internal.find_wrong_decisions(stream_name text)
returns table (kind text, at bigint, example text)
language sql stable
as $$
    with own_log as materialized (
        select l.*, i.hop, i.compacted_batch, s.arrival_seq
        from relaybox_internal.stream s
        join relaybox_internal.stream_log l on l.stream_id = s.stream_id
        join relaybox_internal.hop_in i on i.log_id = l.log_id
        where s.stream = stream_name
    ), decided as materialized (
        select o.hop, d.*,
            lead(
                d.first_arrival_seq, 1, o.arrival_seq + 1
            ) over (order by d.first_arrival_seq) as next_seq
        from own_log o join relaybox_internal.decision d on d.log_id = o.log_id
    ), arrived as materialized (
        select o.hop, o.decided_batch, a.*
        from own_log o
        join relaybox_internal.arrival a
            on a.log_id = o.log_id and a.batch > o.compacted_batch and a.batch <= o.decided_batch
    ), kept as (
        -- the decisions of one log follow each other; those of several logs only if all are kept
        select count(*) = 1 or max(o.compacted_batch) = 0 as has_all_numbers from own_log o
    )
    select 'decision_missing', a.batch,
        format(
            'batch %s of %s has no decision; decided is through batch %s',
            a.batch, a.hop, a.decided_batch
        )
    from arrived a
    left join decided d on d.log_id = a.log_id and d.batch = a.batch
    where d.batch is null
    union all
    select 'decision_contradicts', d.batch,
        format(
            'batch %s of %s: decided on %s rows, %s have arrived',
            d.batch, d.hop, d.row_count, coalesce(a.row_count, 0)
        )
    from decided d
    left join arrived a on a.log_id = d.log_id and a.batch = d.batch
    where a.row_count is distinct from d.row_count
    union all
    select 'decision_contradicts', d.batch,
        format(
            'batch %s of %s: %s duplicates counted, %s listed',
            d.batch, d.hop, d.duplicate_count, coalesce(cardinality(d.duplicates), 0)
        )
    from decided d
    where d.duplicate_count <> coalesce(cardinality(d.duplicates), 0)
    union all
    select 'decision_contradicts', d.batch,
        format(
            'batch %s of %s takes numbers %s to %s, the next decision begins at %s',
            d.batch, d.hop, d.first_arrival_seq, d.first_arrival_seq + d.row_count - 1, d.next_seq
        )
    from decided d cross join kept k
    where k.has_all_numbers and d.next_seq <> d.first_arrival_seq + d.row_count
$$;
