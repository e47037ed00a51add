-- The rows that need a look, each with its verdict: null (may be delivered), duplicate, or why it is set aside; and for an order
-- that waits for a sender's earlier indexes, the arrival number t at which they are all there.
-- One sort of all rows by (sender, index, arrival); what came first of an index stands first.
create or replace function relaybox.judge_rows(here relaybox.stream, input relaybox.stream_log, first_position bigint, last_position bigint)
returns void
language plpgsql volatile
set work_mem = '256MB'
set enable_nestloop = off
set enable_mergejoin = off
set jit = off
as $$
declare
    waits_for_earlier boolean := here.delivery_order in ('fifo', 'causal');
    shift bigint := here.taken - first_position + 1;
    has_ids boolean := exists (select from pg_temp.id_again);
    has_seen boolean := exists (select from pg_temp.seen_again);
    has_skips boolean := exists (select from relaybox.sender_state s where s.stream_id = here.stream_id and s.skipped <> '{}');
    has_stalled boolean := exists (select from pg_temp.batch_sender where reads_after is not null);
    has_fences boolean;
begin
    -- from its first acceptable message on, a higher epoch fences the lower ones
    if exists (
        select from pg_temp.batch_sender b join relaybox.sender_state s on s.stream_id = here.stream_id and s.sender = b.sender
        where b.epoch > 0 and not b.in_order and (s.epoch <> b.epoch)
    ) then
        insert into pg_temp.fence (sender_id, fenced_at)
        select low.sender_id, min(high.begins)
        from relaybox.sender_state low
        join (
            select s.sender, s.epoch, coalesce(s.begun_at, (
                select shift + min(l.position)
                from relaybox.log l
                join pg_temp.batch_sender b on b.sender = l.sender and b.epoch = l.epoch
                where l.hop_id = input.hop_id and l.position >= first_position and l.position <= last_position
                    and l.sender = s.sender and l.epoch = s.epoch and l.sent_at >= b.declared_at and not b.of_another_store
                    and not (b.kind = 'sparse' and waits_for_earlier)
                    and not (b.kind = 'gapless' and l.index > greatest(l.position, upper(b.given_up) - 1) + 1000000)
                    and not (b.kind = 'gapless' and b.given_up @> l.index)
            )) as begins
            from relaybox.sender_state s
            where s.stream_id = here.stream_id and exists (select from pg_temp.batch_sender b where b.sender = s.sender and not b.in_order)
        ) high on high.sender = low.sender and high.epoch > low.epoch and high.begins is not null
        where low.stream_id = here.stream_id and exists (select from pg_temp.batch_sender b where b.sender = low.sender)
        group by low.sender_id;
    end if;
    has_fences := exists (select from pg_temp.fence);
    insert into pg_temp.judged (taken, hop_id, "position", sender_id, epoch, index, is_new, verdict, original, counts, t, ordinal)
    select
        c.taken, c.hop_id, c.position, c.sender_id, c.epoch, c.index, c.is_new,
        case when c.chain is null then c.verdict when c.is_given_up then 'index_skipped' when c.is_again then 'duplicate' end,
        case when c.chain is null then c.original when not c.is_past then c.first_of_index end,
        c.chain is not null and not c.is_again and not c.is_given_up,
        case
            when c.chain is null then case when c.verdict is null then c.taken end
            when c.is_again or c.is_given_up then null
            when not waits_for_earlier then c.taken
            when has_fences then least(
                case when c.chain_whole then c.chain_taken end, (select f.fenced_at from pg_temp.fence f where f.sender_id = c.sender_id)
            )
            when c.chain_whole then c.chain_taken
        end,
        case when waits_for_earlier then c.index end
    from (
        select d.*,
            max(case when not d.is_again then d.taken end) over earlier as chain_taken,
            bool_and(
                -- what comes again says nothing of what is missing before it
                d.index <= greatest(d.previous_index, d.watermark) + 1
                or has_skips and relaybox.is_skipped(d.chain, greatest(d.previous_index, d.watermark) + 1, d.index)
            ) over earlier as chain_whole
        from (
            select e.*,
                e.is_past or e.chain is not null and coalesce(e.previous_index = e.index, false) as is_again
            from (
                select r.*,
                    r.chain is not null and (
                        r.index <= r.watermark
                        or has_seen and exists (
                            select from pg_temp.seen_again a where a.sender_id = r.chain and a.chunk = r.index >> 12 and a.indexes @> r.index
                        )
                        -- beyond the watermark nothing is given up: it was set aside before its turn
                        or has_skips and r.is_new and relaybox.is_skipped(r.chain, r.index, r.index + 1)
                    ) as is_past,
                    lag(r.index) over (partition by r.chain order by r.index, r.taken) as previous_index,
                    first_value(r.position) over (partition by r.chain, r.index order by r.taken) as first_of_index
                from (
                    select q.*, case when q.verdict is null and q.epoch > 0 then q.sender_id end as chain
                    from (
                        select
                            shift + l.position as taken, l.hop_id, l.position, b.sender_id, l.epoch, l.index, true as is_new, b.watermark,
                            b.given_up @> l.index as is_given_up,
                            case when has_ids then (select i.original from pg_temp.id_again i where i.position = l.position) end as original,
                            case
                                when has_ids and exists (select from pg_temp.id_again i where i.position = l.position) then 'duplicate'
                                when b.epoch = 0 and here.delivery_order = 'causal' then 'sender_not_gapless'
                                when b.epoch = 0 then case when b.first_declared_at <= l.sent_at then 'index_missing' end
                                when coalesce(b.first_declared_at > l.sent_at, true) then 'sender_not_declared'
                                when coalesce(b.declared_at > l.sent_at, true) then 'epoch_not_begun'
                                when b.of_another_store then 'sender_of_another_store'
                                when has_fences and shift + l.position > (select f.fenced_at from pg_temp.fence f where f.sender_id = b.sender_id)
                                    then 'epoch_fenced'
                                when b.kind = 'sparse' and waits_for_earlier then 'sender_not_gapless'
                                when b.kind = 'gapless' and l.index > greatest(l.position, coalesce(upper(b.given_up) - 1, 0)) + 1000000
                                    then 'index_too_far'
                            end as verdict
                        from relaybox.log l
                        join pg_temp.batch_sender b on b.sender = l.sender and b.epoch = l.epoch
                        where l.hop_id = input.hop_id and l.position >= first_position and l.position <= last_position
                            and not b.in_order and not b.waits
                        union all
                        select
                            k.first_taken + l.position - a.first_position, l.hop_id, l.position, b.sender_id, l.epoch, l.index, true, b.watermark, b.given_up @> l.index,
                            (select i.original from pg_temp.id_again i where i.position = l.position),
                            case
                                when exists (select from pg_temp.id_again i where i.position = l.position) then 'duplicate'
                                when coalesce(b.declared_at > l.sent_at, true) then 'epoch_not_begun'
                                when k.first_taken + l.position - a.first_position
                                    > (select f.fenced_at from pg_temp.fence f where f.sender_id = b.sender_id) then 'epoch_fenced'
                                when b.kind = 'gapless' and l.index > greatest(l.position, coalesce(upper(b.given_up) - 1, 0)) + 1000000
                                    then 'index_too_far'
                            end
                        from pg_temp.batch_sender b
                        join relaybox.log l on l.hop_id = input.hop_id and l.position > b.reads_after and l.position < first_position
                            and l.sender = b.sender and l.epoch = b.epoch
                        join relaybox.arrival a on a.hop_id = input.hop_id and a.first_position <= l.position and a.last_position >= l.position
                        join relaybox.decision k on k.hop_id = input.hop_id and k.batch = a.batch
                        where has_stalled and b.reads_after is not null
                        union all
                        select h.taken, h.hop_id, h.position, h.sender_id, s.epoch, h.index, false, s.watermark, s.skipped @> h.index, null, null
                        from relaybox.held h
                        join relaybox.sender_state s on s.sender_id = h.sender_id
                        where h.stream_id = here.stream_id and (
                            here.delivery_order = 'causal' or here.recheck
                            or exists (select from pg_temp.fence f where f.sender_id = h.sender_id)
                            or exists (select from pg_temp.batch_sender b where b.sender_id = h.sender_id and not b.in_order)
                        )
                    ) q
                ) r
            ) e
        ) d
        window earlier as (partition by d.chain order by d.index, d.taken)
    ) c;
end
$$;
