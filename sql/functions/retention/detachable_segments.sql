-- The oldest segments of a log that nobody needs but subscriptions that stopped, and that their route detaches; and who these are.
create or replace function relaybox_internal.detachable_segments(log_id_ integer)
returns table (segment regclass, first bigint, last bigint, needed_by text[])
language sql stable
as $$
    with needed as materialized (
        select * from relaybox_internal.holders(log_id_)
    )
    select s.segment, s.first, s.last, array(select distinct n.holder from needed n where n.detachable and n.needs_from <= s.last order by 1)
    from relaybox_internal.segments() s
    where s.log_id = log_id_ and s.last < (select min(n.needs_from) from needed n where not n.detachable)
        and exists (select from needed n where n.detachable and n.needs_from <= s.last)
    order by s.first
$$;
