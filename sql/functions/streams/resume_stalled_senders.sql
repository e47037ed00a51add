-- Resumes the stalled senders that may go on: their undecided rows, which are in the log before
-- this batch, are classified with it.
create or replace function relaybox_internal.resume_stalled_senders(
    stream_ relaybox_internal.stream, input_log relaybox_internal.stream_log, before_position bigint
)
returns void
language plpgsql volatile
as $$
declare
    stalled relaybox_internal.sender_state;
begin
    for stalled in
        select s.* from relaybox_internal.sender_state s
        where s.stream_id = stream_.stream_id and s.origin = input_log.origin
            and s.stalled_after is not null and (
            s.stalled_reason = 'set_full' and s.fragment_count <= stream_.fragments
            or s.stalled_reason = 'holdback_full' and (stream_.recheck or exists (
                select from pg_temp.decision_sender b
                where b.sender = s.sender and b.epoch = s.epoch and b.first_index <= s.watermark + 1
            ))
            -- in causal order, messages of other senders may have released what was held
            or s.stalled_reason = 'holdback_full' and (
                s.watermark > s.stalled_watermark
                or not exists (
                    select from relaybox_internal.held h where h.sender_id = s.sender_id
                )
            )
            -- the epoch ends: its messages are decided on now or never
            or exists (
                select from pg_temp.decision_sender b
                join relaybox_internal.sender d on d.origin = s.origin and d.sender = b.sender
                    and d.epoch = b.epoch
                where b.sender = s.sender and b.epoch > s.epoch
            )
        )
    loop
        update relaybox_internal.sender_state
        set stalled_after = null, stalled_reason = null
        where sender_id = stalled.sender_id;
        insert into pg_temp.decision_sender as b (
            sender, epoch, first_index, last_index, is_ascending, resumes_after
        )
        select l.sender, l.epoch, min(l.index), max(l.index), false, stalled.stalled_after
        from relaybox_internal.log l
        where l.log_id = input_log.log_id and l.log_position > stalled.stalled_after
            and l.log_position < before_position
            and l.sender = stalled.sender and l.epoch = stalled.epoch
        group by l.sender, l.epoch
        on conflict (sender, epoch) do update set
            first_index = least(b.first_index, excluded.first_index),
            last_index = greatest(b.last_index, excluded.last_index),
            is_ascending = false, resumes_after = excluded.resumes_after;
    end loop;
end
$$;
