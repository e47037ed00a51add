-- The seq up to which a snapshot has seen the end of each transaction that has a row in the outbox, now
-- and for ever: the end of the highest segment that was sealed before the snapshot was taken; 0: none.
-- The lower segments were sealed before it. A snapshot knows that a transaction from sealed_xid on had
-- ended (its xmax is higher), so it is later than the lock under which the segment was sealed; open
-- transactions do not matter. A seal that came with a dump counts for nothing.
create or replace function relaybox_internal.sealed_through(taken pg_snapshot) returns bigint
language sql stable
as $$
    select coalesce((
        select s.last_seq
        from relaybox_internal.sealed_segment s
        where s.sealed_xid < pg_snapshot_xmax(taken)
            and s.xmin::text::bigint = s.sealed_xid::text::numeric % 4294967296
        order by s.last_seq desc
        limit 1
    ), 0)
$$;
