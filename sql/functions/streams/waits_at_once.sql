-- Lists which message follows which among those of pg_temp.causal_message that are released at the
-- same moment. is_by_clock: its clock names the other one; else both are of the same sender. A
-- message that is given up with its epoch waits for no clock.
create or replace function relaybox_internal.waits_at_once()
returns table (arrival_seq bigint, follows_seq bigint, is_by_clock boolean)
language sql stable
as $$
    select c.arrival_seq, d.arrival_seq, true
    from pg_temp.unmet_cause c
    cross join lateral (
        select o.release_seq, o.sender_id
        from pg_temp.causal_message o where o.arrival_seq = c.arrival_seq offset 0
    ) j
    cross join lateral (
        select o.arrival_seq, o.release_seq
        from pg_temp.causal_message o where o.arrival_seq = c.cause_seq offset 0
    ) d
    left join pg_temp.epoch_end f on f.sender_id = j.sender_id
    where d.release_seq = j.release_seq and j.release_seq < 9223372036854775807
        and (f.ended_at_seq <= j.release_seq) is not true
    union all
    -- the named message never came and its epoch ends now: the last one before it counts
    select c.arrival_seq, d.arrival_seq, true
    from pg_temp.unmet_cause c
    cross join lateral (
        select o.release_seq, o.sender_id
        from pg_temp.causal_message o where o.arrival_seq = c.arrival_seq offset 0
    ) j
    left join pg_temp.epoch_end f on f.sender_id = j.sender_id
    cross join lateral (
        select k.arrival_seq from pg_temp.causal_message k
        where k.sender_id = c.cause_sender_id and k.index < c.cause_index
            and k.release_seq = j.release_seq
        order by k.index desc limit 1
    ) d
    where j.release_seq = c.ended_at_seq and (f.ended_at_seq <= j.release_seq) is not true
    union all
    select o.arrival_seq, o.follows_seq, false
    from (
        select j.arrival_seq,
            lag(j.arrival_seq) over (
                partition by j.sender_id, j.release_seq order by j.index
            ) as follows_seq
        from pg_temp.causal_message j where j.release_seq < 9223372036854775807
    ) o
    where o.follows_seq is not null
    union all
    select j.arrival_seq, d.arrival_seq, false
    from pg_temp.causal_message j
    join pg_temp.causal_message d on d.sender = j.sender and d.epoch < j.epoch
        and d.release_seq = j.release_seq
    where j.release_seq < 9223372036854775807
$$;
