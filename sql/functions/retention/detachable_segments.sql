-- The oldest segments of a log that only stopped subscriptions need, if their route detaches them,
-- and the names of these subscriptions.
create or replace function relaybox_internal.detachable_segments(log_id_ integer)
returns table (segment regclass, first bigint, last bigint, needed_by text[])
language sql stable
as $$
    with holder as materialized (
        select * from relaybox_internal.holders(log_id_)
    )
    select
        s.segment, s.first, s.last,
        array(
            select distinct h.holder from holder h
            where h.detachable and h.needs_from <= s.last order by 1
        )
    from relaybox_internal.segments() s
    where s.log_id = log_id_
        and s.last < (select min(h.needs_from) from holder h where not h.detachable)
        and exists (select from holder h where h.detachable and h.needs_from <= s.last)
    order by s.first
$$;
