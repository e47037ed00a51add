-- Among the messages of pg_temp.clocked that are let through at the same moment: which follows which, and why. by_clock: its clock says
-- so; else it is of the same sender. What is given up with its epoch waits for no clock.
create or replace function relaybox.waits_at_once() returns table (taken bigint, for_taken bigint, by_clock boolean)
language sql stable
as $$
    select c.taken, d.taken, true
    from pg_temp.cause c
    cross join lateral (select o.t, o.sender_id from pg_temp.clocked o where o.taken = c.taken offset 0) j
    cross join lateral (select o.taken, o.t from pg_temp.clocked o where o.taken = c.for_taken offset 0) d
    left join pg_temp.fence f on f.sender_id = j.sender_id
    where d.t = j.t and j.t < 9223372036854775807 and (f.fenced_at <= j.t) is not true
    union all
    -- what the clock names never came, and its epoch ends now: what had come before it
    select c.taken, d.taken, true
    from pg_temp.cause c
    cross join lateral (select o.t, o.sender_id from pg_temp.clocked o where o.taken = c.taken offset 0) j
    left join pg_temp.fence f on f.sender_id = j.sender_id
    cross join lateral (
        select k.taken from pg_temp.clocked k
        where k.sender_id = c.sender_id and k.index < c.index and k.t = j.t
        order by k.index desc limit 1
    ) d
    where j.t = c.fenced_at and (f.fenced_at <= j.t) is not true
    union all
    select o.taken, o.for_taken, false
    from (
        select j.taken, lag(j.taken) over (partition by j.sender_id, j.t order by j.index) as for_taken
        from pg_temp.clocked j where j.t < 9223372036854775807
    ) o
    where o.for_taken is not null
    union all
    select j.taken, d.taken, false
    from pg_temp.clocked j
    join pg_temp.clocked d on d.sender = j.sender and d.epoch < j.epoch and d.t = j.t
    where j.t < 9223372036854775807
$$;
