-- Looks at what is held, without a new batch: releases what a skip lets through, sets aside what the skip gives up.
-- The counts go to the newest decision of the log, the time of what it delivers to relaybox.late_delivery.
create or replace function relaybox.deliver_held(here relaybox.stream, input relaybox.stream_log) returns void
language plpgsql volatile
as $$
declare
    placed bigint;
begin
    here.recheck := true;
    perform relaybox.judge_batch(here, input, null, input.decided_position + 1, input.decided_position);
    placed := relaybox.place_messages(here, input.hop_id, input.decided_position + 1, input.decided_position);
    perform relaybox.set_aside_judged(here);
    if placed > 0 then
        insert into relaybox.late_delivery (stream_id, delivered_at, after_place)
        values (here.stream_id, relaybox.delivery_time(here.stream_id), here.last_place);
    end if;
    update relaybox.decision d set
        delivered_count = d.delivered_count + placed, last_place = here.last_place + placed,
        duplicate_count = d.duplicate_count + (select count(*) from pg_temp.classified j where j.outcome = 'duplicate'),
        duplicates = d.duplicates || (select array_agg(j.position order by j.position) from pg_temp.classified j where j.outcome = 'duplicate'),
        set_aside_count = d.set_aside_count + (select count(*) from pg_temp.classified j where j.outcome <> 'duplicate')
    where d.hop_id = input.hop_id and d.batch = input.decided_batch;
    perform relaybox.settle_senders(here, input.hop_id, input.decided_position + 1, input.decided_position);
    update relaybox.decision d set
        held_after = (select count(*) from relaybox.held h where h.stream_id = here.stream_id),
        resolved_position = relaybox.resolved_position(input.hop_id)
    where d.hop_id = input.hop_id and d.batch = input.decided_batch;
    update relaybox.stream s set last_place = here.last_place + placed, recheck = false where s.stream_id = here.stream_id;
end
$$;
