-- Counts the rows of a piece of the backlog in buckets of seq: at most about max_rows rows,
-- beginning with its first seq. `run` numbers the ranges of seqs: the rows between two ranges were
-- delivered before, and no slice reads across them. Reads along the primary key and stops, range by
-- range: a giant backlog is never counted twice. With literals the planner leaves out the segments
-- beside the seqs. Inlined.
create or replace function relaybox_internal.backlog_buckets(
    lower_ pg_snapshot, upper_ pg_snapshot, topics_ text[], seqs_ int8multirange,
    bucket_seqs bigint, max_rows bigint
)
returns table (first_seq bigint, last_seq bigint, row_count bigint, run bigint)
language sql stable parallel safe
as $$
    select min(p.seq), max(p.seq), count(*), p.run
    from (
        select w.seq, r.run
        from unnest(seqs_) with ordinality r (seqs, run)
        cross join lateral (
            select o.seq from relaybox_internal.sent_rows o
            where o.seq >= lower(r.seqs)
                and o.seq < upper(r.seqs)
                and o.seq >= lower(seqs_) and o.seq < upper(seqs_)
                and o.topic = any(topics_)
                and (
                    (o.xid >= pg_snapshot_xmax(lower_) and o.xid < pg_snapshot_xmax(upper_)
                        and (
                            o.xid < pg_snapshot_xmin(upper_)
                            or pg_visible_in_snapshot(o.xid, upper_)
                        ))
                    or o.xid = any(array(
                        select x from pg_snapshot_xip(lower_) x
                        where pg_visible_in_snapshot(x, upper_)
                    ))
                )
            order by o.seq
            limit max_rows
        ) w
        limit max_rows
    ) p
    group by p.run, p.seq / bucket_seqs
    order by 1
$$;
