-- Where a judged message stands among those that are let through at the same moment, before any is compared with another: the sum of
-- its clock grows along every chain of causes. What was set aside stands nowhere itself.
create or replace function relaybox.rank_by_clocks() returns void
language sql volatile
as $$
    update pg_temp.judged j set ordinal = case when j.verdict is null then least(9000000000000000000, j.index + coalesce((
        select sum(e.index) from relaybox.log l cross join relaybox.clock_entries(l.clock) e
        join relaybox.sender_state me on me.sender_id = j.sender_id
        where l.hop_id = j.hop_id and l.position = j.position and e.sender <> me.sender
    ), 0)) else 0 end
    where j.counts
$$;
