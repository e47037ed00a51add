-- Copies the classified messages whose indexes are resolved to pg_temp.causal_message, with the sum
-- of their clocks. A clock that cannot be read sets its message aside, whatever else is delivered.
create or replace function relaybox_internal.read_clocks(stream_ relaybox_internal.stream)
returns void
language sql volatile
as $$
    insert into pg_temp.causal_message (
        arrival_seq, node, log_id, log_position, sender_id, sender, epoch, index, release_seq,
        outcome, clock_sum, release_rank
    )
    select
        j.arrival_seq, row_number() over (order by j.sender_id, j.index), j.log_id, j.log_position,
        j.sender_id, s.sender, s.epoch, j.index,
        coalesce(j.release_seq, 9223372036854775807),
        coalesce(j.outcome, case when not v.is_valid then 'clock_invalid' end), v.clock_sum, 0
    from pg_temp.classified j
    join relaybox_internal.sender_state s on s.sender_id = j.sender_id
    cross join lateral (
        select m.clock from relaybox_internal.log m
        where m.log_id = j.log_id and m.log_position = j.log_position offset 0
    ) l
    cross join lateral (
        select c.is_valid, case when c.is_valid then (
            select coalesce(sum(e.index), 0)
            from relaybox_internal.clock_entries(l.clock) e where e.sender <> s.sender
        ) end as clock_sum
        from (
            select relaybox_internal.clock_is_valid(
                l.clock, s.sender, s.epoch, j.index
            ) as is_valid offset 0
        ) c
        offset 0
    ) v
    where j.is_indexed
$$;
