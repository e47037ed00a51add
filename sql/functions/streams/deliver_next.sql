-- Decides on the next published batch of a log: which messages its stream delivers, in which order, and which it drops, holds back or
-- sets aside. In the caller's transaction, whose COMMIT must be durable. Returns null when there is nothing to decide.
-- A batch whose senders all bring it in order is one run of positions; only the senders of another one are looked at row by row.
-- Raises RB004 when the log's stream is not registered, RB007 while an init changes its rules.
create or replace function relaybox.deliver_next(log_id integer) returns relaybox.decision
language plpgsql volatile
as $$
declare
    here relaybox.stream;
    input relaybox.stream_log;
    batch relaybox.arrival;
    decided relaybox.decision;
    is_in_order boolean;
    has_judged boolean;
    ends bigint;
    placed bigint;
    counted record;
begin
    perform relaybox.require_writable_primary();
    set local synchronous_commit = on;
    select s.* into here from relaybox.stream s join relaybox.stream_log l using (stream_id) where l.hop_id = log_id for no key update of s;
    if not found then
        raise exception using errcode = 'RB004', message = format('log %s belongs to no stream', log_id), hint = 'Run: relaybox init';
    end if;
    perform relaybox.refuse_pending_rules(here);
    -- its own statement, after the lock
    select * into input from relaybox.stream_log l where l.hop_id = log_id;
    select * into batch from relaybox.arrival a where a.hop_id = log_id and a.batch > input.decided_batch order by a.batch limit 1;
    if not found then
        if here.recheck or relaybox.has_sender_to_take_up(here.stream_id, input.origin) then
            perform relaybox.deliver_held(here, input);
        end if;
        return null;
    end if;
    ends := here.taken + batch.row_count;
    is_in_order := not coalesce(batch.has_own_indexes, true) and here.message_id_window = 0 and here.delivery_order <> 'causal'
        and not here.recheck;
    has_judged := not is_in_order;
    if has_judged then
        perform relaybox.judge_batch(here, input, batch.batch, batch.first_position, batch.last_position);
        is_in_order := not here.recheck and not exists (select from pg_temp.batch_sender where not in_order);
    end if;
    if is_in_order then
        perform relaybox.append_run(here, log_id, batch.first_position, batch.last_position);
        placed := batch.row_count;
        if has_judged then
            perform relaybox.settle_senders(here, log_id, batch.first_position, batch.last_position);
        end if;
        select 0::bigint as duplicate_count, 0::bigint as set_aside_count, null::bigint[] as duplicates into counted;
    else
        placed := relaybox.place_messages(here, log_id, batch.first_position, batch.last_position);
        select count(*) filter (where j.verdict = 'duplicate') as duplicate_count,
            count(*) filter (where j.verdict is not null and j.verdict <> 'duplicate') as set_aside_count,
            array_agg(j.position order by j.position) filter (where j.verdict = 'duplicate') as duplicates
        into counted from pg_temp.judged j;
        perform relaybox.set_aside_judged(here);
        perform relaybox.settle_senders(here, log_id, batch.first_position, batch.last_position);
    end if;
    update relaybox.stream s set taken = ends, last_place = here.last_place + placed, recheck = false where s.stream_id = here.stream_id;
    update relaybox.stream_log l set decided_batch = batch.batch, decided_position = batch.last_position where l.hop_id = log_id;
    insert into relaybox.decision (
        hop_id, batch, first_taken, row_count, duplicate_count, set_aside_count, delivered_count, held_after, last_place, duplicates, in_order,
        resolved_position, decided_at
    )
    values (
        log_id, batch.batch, here.taken + 1, batch.row_count, counted.duplicate_count, counted.set_aside_count, placed,
        (select count(*) from relaybox.held h where h.stream_id = here.stream_id), here.last_place + placed, counted.duplicates, is_in_order,
        relaybox.resolved_position(log_id), relaybox.delivery_time(here.stream_id)
    )
    returning * into decided;
    return decided;
end
$$;
