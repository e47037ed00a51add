-- Rows that a new generation of a hop has to deliver first, counted in buckets of seq. No transaction that wrote one of these
-- seqs is open, so every visible row counts. `run` numbers the stretches without a delivered row: no slice reads across two.
create or replace function relaybox.undelivered_buckets(undelivered int8multirange, topics_ text[], bucket_seqs bigint)
returns table (first_seq bigint, last_seq bigint, row_count bigint, run bigint)
language sql stable
as $$
    select min(o.seq), max(o.seq), count(*), r.run
    from unnest(undelivered) with ordinality r (seqs, run)
    join relaybox.outbox o on o.seq >= lower(r.seqs) and o.seq < upper(r.seqs)
    where o.topic = any(topics_)
    group by r.run, o.seq / bucket_seqs
    order by 1
$$;
