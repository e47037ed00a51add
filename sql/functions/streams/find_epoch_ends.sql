-- Fills pg_temp.epoch_end: the first acceptable message of a higher epoch of a sender ends the
-- lower ones. It is begun_at of the higher epoch, or its first message in the range that no rule
-- refuses.
create or replace function relaybox_internal.find_epoch_ends(
    stream relaybox_internal.stream, input_log relaybox_internal.stream_log, first_position bigint,
    last_position bigint
)
returns void
language plpgsql volatile
as $$
declare
    waits_for_earlier boolean := stream.delivery_order in ('fifo', 'causal');
    seq_shift bigint := stream.arrival_seq - first_position + 1;
begin
    if not exists (
        select from pg_temp.decision_sender b
        join relaybox_internal.sender_state s on s.stream_id = stream.stream_id
            and s.sender = b.sender
        where b.epoch > 0 and not b.is_in_order and s.epoch <> b.epoch
    ) then
        return;
    end if;
    insert into pg_temp.epoch_end (sender_id, ended_at_seq)
    select lower.sender_id, min(higher.begins_at_seq)
    from relaybox_internal.sender_state lower
    join (
        select s.sender, s.epoch, coalesce(s.begun_at, (
            select seq_shift + min(l.log_position)
            from relaybox_internal.log l
            join pg_temp.decision_sender b on b.sender = l.sender and b.epoch = l.epoch
            where l.log_id = input_log.log_id and l.log_position >= first_position
                and l.log_position <= last_position
                and l.sender = s.sender and l.epoch = s.epoch and l.sent_at >= b.declared_at
                and not b.is_of_another_store
                and not (b.kind = 'sparse' and waits_for_earlier)
                and not (
                    b.kind = 'gapless'
                    and l.index > greatest(l.log_position, upper(b.given_up) - 1) + 1000000
                )
                and not (b.kind = 'gapless' and b.given_up @> l.index)
        )) as begins_at_seq
        from relaybox_internal.sender_state s
        where s.stream_id = stream.stream_id
            and exists (
                select from pg_temp.decision_sender b
                where b.sender = s.sender and not b.is_in_order
            )
    ) higher on higher.sender = lower.sender and higher.epoch > lower.epoch
        and higher.begins_at_seq is not null
    where lower.stream_id = stream.stream_id
        and exists (select from pg_temp.decision_sender b where b.sender = lower.sender)
    group by lower.sender_id;
end
$$;
