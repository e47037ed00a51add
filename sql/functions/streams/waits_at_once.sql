-- Among the judged messages that are let through at the same moment: which follows which, and why. by_clock: its clock says so; else
-- it is of the same sender. after: the ordinal of the one that comes before. What is given up with its epoch waits for no clock.
create or replace function relaybox.waits_at_once() returns table (taken bigint, for_taken bigint, after bigint, by_clock boolean)
language sql stable
as $$
    select j.taken, d.taken, d.ordinal, true
    from pg_temp.judged j
    join pg_temp.cause c on c.taken = j.taken
    join pg_temp.judged d on d.counts and d.sender_id = c.sender_id and d.index = c.index and d.t = j.t
    left join pg_temp.fence f on f.sender_id = j.sender_id
    where (f.fenced_at <= j.t) is not true
    union all
    -- what the clock names never came, and its epoch ends now: what had come before it
    select j.taken, d.taken, d.ordinal, true
    from pg_temp.judged j
    join pg_temp.cause c on c.taken = j.taken and c.fenced_at = j.t
    left join pg_temp.fence f on f.sender_id = j.sender_id
    cross join lateral (
        select k.taken, k.ordinal from pg_temp.judged k
        where k.counts and k.sender_id = c.sender_id and k.index < c.index and k.t = j.t
        order by k.index desc limit 1
    ) d
    where (f.fenced_at <= j.t) is not true
    union all
    select o.taken, o.for_taken, o.after, false
    from (
        select j.taken, lag(j.taken) over own as for_taken, lag(j.ordinal) over own as after
        from pg_temp.judged j where j.counts and j.t is not null
        window own as (partition by j.sender_id, j.t order by j.index)
    ) o
    where o.for_taken is not null
    union all
    select j.taken, d.taken, d.ordinal, false
    from pg_temp.judged j
    join relaybox.sender_state s on s.sender_id = j.sender_id
    join relaybox.sender_state low on low.stream_id = s.stream_id and low.sender = s.sender and low.epoch < s.epoch
    join pg_temp.judged d on d.counts and d.sender_id = low.sender_id and d.t = j.t
    where j.counts
$$;
