-- Causal order: a message waits for its sender's earlier ones (judge_rows) and for all that its clock says was delivered to the
-- sender. Sets t and ordinal of the judged rows; sets aside what can't be waited for.
-- A vector clock holds its causes' causes too, so one round decides; where clocks leave them out, rounds go on until nothing changes.
create or replace function relaybox.judge_clocks(here relaybox.stream) returns void
language plpgsql volatile
set work_mem = '128MB'
set jit = off
as $$
declare
    changed bigint;
    rounds integer := 0;
    largest bigint;
begin
    -- by the clock and the message's arrival alone, whatever is delivered meanwhile
    update pg_temp.judged j set verdict = d.defect
    from (
        select i.taken, case
            when not relaybox.clock_is_valid(l.clock, s.sender, s.epoch, i.index) then 'clock_invalid'
            when exists (
                select from relaybox.clock_entries(l.clock) e where e.sender <> s.sender and e.index > i.taken + 1000000
            ) then 'clock_too_far'
        end as defect
        from pg_temp.judged i
        join relaybox.log l on l.hop_id = i.hop_id and l.position = i.position
        join relaybox.sender_state s on s.sender_id = i.sender_id
        where i.counts
    ) d
    where j.counts and j.taken = d.taken and d.defect is not null;
    insert into pg_temp.cause (taken, sender_id, index, fenced_at)
    select c.taken, s.sender_id, c.index, f.fenced_at
    from (
        select j.taken, e.sender, e.epoch, e.index
        from pg_temp.judged j
        join relaybox.log l on l.hop_id = j.hop_id and l.position = j.position
        join relaybox.sender_state me on me.sender_id = j.sender_id
        cross join relaybox.clock_entries(l.clock) e
        where j.counts and j.verdict is null and e.sender <> me.sender
    ) c
    left join relaybox.sender_state s on s.stream_id = here.stream_id and s.sender = c.sender and s.epoch = c.epoch
    left join pg_temp.fence f on f.sender_id = s.sender_id
    where (s.watermark >= c.index) is not true
        and not exists (
            select from relaybox.sender_state n
            where n.stream_id = here.stream_id and n.sender = c.sender and n.epoch > c.epoch and n.begun_at is not null
        );
    update pg_temp.judged j set verdict = 'clock_names_unknown_sender'
    from relaybox.held h
    where j.counts and j.verdict is null and not j.is_new and h.hop_id = j.hop_id and h.position = j.position
        and h.taken <= (select min(coalesce(i.senders_taken, 0)) from relaybox.stream_log i where i.stream_id = here.stream_id)
        and exists (
            select from relaybox.log l cross join relaybox.clock_entries(l.clock) e
            where l.hop_id = j.hop_id and l.position = j.position and not exists (
                select from relaybox.sender d
                join relaybox.stream_log i on i.stream_id = here.stream_id and i.origin = d.origin
                where d.sender = e.sender and d.epoch = e.epoch
            )
        );
    delete from pg_temp.cause c using pg_temp.judged j where j.taken = c.taken and j.verdict is not null;
    update pg_temp.judged j set ordinal = least(9000000000000000000, j.index + coalesce((
        select sum(e.index) from relaybox.log l cross join relaybox.clock_entries(l.clock) e
        join relaybox.sender_state me on me.sender_id = j.sender_id
        where l.hop_id = j.hop_id and l.position = j.position and e.sender <> me.sender
    ), 0))
    where j.counts and j.verdict is distinct from 'clock_invalid';
    loop
        -- t: as late as the latest cause and the sender's own earlier messages
        with bounds as (
            select j.taken, max(least(d.t, c.fenced_at)) as t, bool_or(least(d.t, c.fenced_at) is null) as blocked
            from pg_temp.judged j
            join pg_temp.cause c on c.taken = j.taken
            left join pg_temp.judged d on d.counts and d.sender_id = c.sender_id and d.index = c.index
            group by j.taken
        ), own as (
            select j.taken,
                bool_or(j.t is null or coalesce(b.blocked, false)) over earlier as blocked,
                max(greatest(j.t, b.t)) over earlier as t
            from pg_temp.judged j left join bounds b on b.taken = j.taken
            where j.counts
            window earlier as (partition by j.sender_id order by j.index)
        )
        update pg_temp.judged j set t = n.t
        from (
            select o.taken, case when o.blocked then f.fenced_at else least(o.t, f.fenced_at) end as t
            from own o join pg_temp.judged k on k.counts and k.taken = o.taken left join pg_temp.fence f on f.sender_id = k.sender_id
        ) n
        where j.counts and j.taken = n.taken and j.t is distinct from n.t;
        get diagnostics changed = row_count;
        exit when changed = 0;
    end loop;
    select coalesce(max(n), 0) into largest
    from (select count(*) as n from pg_temp.judged where counts and t is not null group by t) g;
    loop
        -- ordinal: after every cause that is let through at the same moment
        update pg_temp.judged j set ordinal = n.ordinal
        from (
            select m.taken, max(m.after) + 1 as ordinal
            from (
                select j.taken, d.ordinal as after
                from pg_temp.judged j
                join pg_temp.cause c on c.taken = j.taken
                join pg_temp.judged d on d.counts and d.sender_id = c.sender_id and d.index = c.index and d.t = j.t
                union all
                select j.taken, lag(j.ordinal) over (partition by j.sender_id, j.t order by j.index)
                from pg_temp.judged j where j.counts and j.t is not null
                union all
                select j.taken, d.ordinal
                from pg_temp.judged j
                join relaybox.sender_state s on s.sender_id = j.sender_id
                join relaybox.sender_state low on low.stream_id = s.stream_id and low.sender = s.sender and low.epoch < s.epoch
                join pg_temp.judged d on d.counts and d.sender_id = low.sender_id and d.t = j.t
                where j.counts
            ) m
            group by m.taken
        ) n
        where j.counts and j.taken = n.taken and j.t is not null and j.ordinal < n.ordinal;
        get diagnostics changed = row_count;
        exit when changed = 0;
        rounds := rounds + 1;
        if rounds > largest then
            -- they wait for each other, for ever
            update pg_temp.judged j set verdict = 'clock_invalid'
            where j.counts and j.verdict is null and j.t is not null and exists (
                select from pg_temp.cause c
                join pg_temp.judged d on d.counts and d.sender_id = c.sender_id and d.index = c.index and d.t = j.t and d.ordinal >= j.ordinal
                where c.taken = j.taken
            );
            exit;
        end if;
    end loop;
end
$$;
