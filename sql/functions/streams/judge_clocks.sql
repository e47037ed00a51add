-- Causal order: a message waits for its sender's earlier ones (judge_rows) and for all that its clock says was delivered to the
-- sender. Sets t and ordinal of the judged rows; sets aside what can't be waited for.
-- A vector clock holds its causes' causes too, so one round decides; where clocks leave them out, rounds go on until nothing changes.
-- What waits for itself by way of other clocks is set aside as soon as it waits for nothing else.
create or replace function relaybox.judge_clocks(here relaybox.stream) returns void
language plpgsql volatile
set work_mem = '128MB'
set jit = off
as $$
declare
    changed bigint;
    rounds integer := 0;
    patience integer := 8;
begin
    -- by the clock and the message's arrival alone, whatever is delivered meanwhile
    update pg_temp.judged j set verdict = d.defect
    from (
        select i.taken, case
            when not relaybox.clock_is_valid(l.clock, s.sender, s.epoch, i.index) then 'clock_invalid'
        end as defect
        from pg_temp.judged i
        join relaybox.log l on l.hop_id = i.hop_id and l.position = i.position
        join relaybox.sender_state s on s.sender_id = i.sender_id
        where i.counts
    ) d
    where j.counts and j.taken = d.taken and d.defect is not null;
    insert into pg_temp.cause (taken, sender_id, index, fenced_at)
    with begun as materialized (
        select s.sender, s.epoch, min(j.taken) as taken
        from pg_temp.judged j join relaybox.sender_state s on s.sender_id = j.sender_id
        where j.counts and s.begun_at is null group by s.sender, s.epoch
    )
    -- of an epoch that ended without a message nothing is known but its end
    select c.taken, c.sender_id, c.index, coalesce(f.fenced_at, case when c.sender_id is null then (
        select min(b.taken) from begun b where b.sender = c.sender and b.epoch > c.epoch
    ) end)
    from (
        select n.taken, n.sender, n.epoch, s.sender_id, s.watermark, relaybox.index_to_wait_for(s.skipped, n.index) as index
        from (
            select j.taken, e.sender, e.epoch, e.index
            from pg_temp.judged j
            join relaybox.log l on l.hop_id = j.hop_id and l.position = j.position
            join relaybox.sender_state me on me.sender_id = j.sender_id
            cross join relaybox.clock_entries(l.clock) e
            where j.counts and j.verdict is null and e.sender <> me.sender
        ) n
        left join relaybox.sender_state s on s.stream_id = here.stream_id and s.sender = n.sender and s.epoch = n.epoch
    ) c
    left join pg_temp.fence f on f.sender_id = c.sender_id
    where (c.watermark >= c.index) is not true
        and not exists (
            select from relaybox.sender_state n
            where n.stream_id = here.stream_id and n.sender = c.sender and n.epoch > c.epoch and n.begun_at is not null
        );
    perform relaybox.rank_by_clocks();
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
    loop
        -- ordinal: after all that it waits for and that is let through at the same moment; what was set aside hands on what is before it
        update pg_temp.judged j set ordinal = n.after + (j.verdict is null)::integer
        from (select w.taken, max(w.after) as after from relaybox.waits_at_once() w group by w.taken) n
        where j.counts and j.taken = n.taken and j.ordinal < n.after + (j.verdict is null)::integer;
        get diagnostics changed = row_count;
        exit when changed = 0;
        rounds := rounds + 1;
        -- a chain has an end, a circle has none
        if rounds = patience then
            patience := patience * 2;
            if relaybox.set_aside_circles() then
                perform relaybox.rank_by_clocks();
            end if;
        end if;
    end loop;
end
$$;
