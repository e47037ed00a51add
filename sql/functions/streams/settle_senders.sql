-- Writes down how far each sender of a decision has come: what was accepted, held, set aside; where its indexes are in the log;
-- and whether it stalls, because its holdback or its set of indexes is full.
create or replace function relaybox.settle_senders(here relaybox.stream, log_id integer, first_position_ bigint, last_position_ bigint)
returns void
language plpgsql volatile
set work_mem = '128MB'
set jit = off
as $$
declare
    waits_for_earlier boolean := here.delivery_order in ('fifo', 'causal');
    sender relaybox.sender_state;
begin
    -- senders in order: the watermark moves over the batch
    update relaybox.sender_state s set
        watermark = b.last_index, begun_at = coalesce(s.begun_at, here.taken + 1), moved_at = clock_timestamp(),
        range_first_index = coalesce(s.range_first_index, b.first_index), range_last_index = b.last_index,
        range_first_position = coalesce(s.range_first_position, first_position_), range_last_position = last_position_
    from pg_temp.batch_sender b
    where b.in_order and b.epoch > 0 and s.sender_id = b.sender_id;
    -- senders that were looked at
    update relaybox.sender_state s set
        begun_at = coalesce(s.begun_at, j.begun_at), moved_at = clock_timestamp(),
        watermark = case when waits_for_earlier then greatest(s.watermark, j.last_done) else s.watermark end,
        range_first_index = least(s.range_first_index, j.first_index), range_last_index = greatest(s.range_last_index, j.last_index),
        range_first_position = least(s.range_first_position, j.first_position),
        range_last_position = greatest(s.range_last_position, j.last_position),
        -- set aside before its turn: its turn must not be waited for
        skipped = s.skipped + coalesce(j.done_early, '{}')
    from (
        select j.sender_id, min(j.taken) as begun_at, max(j.index) filter (where j.t is not null) as last_done,
            min(j.index) as first_index, max(j.index) as last_index, min(j.position) as first_position, max(j.position) as last_position,
            range_agg(int8range(j.index, j.index + 1)) filter (where j.t is null and j.verdict is not null) as done_early
        from pg_temp.judged j where j.counts group by j.sender_id
    ) j
    where s.sender_id = j.sender_id;
    if not waits_for_earlier then
        perform relaybox.remember_indexes();
    end if;
    delete from relaybox.held h using pg_temp.judged j
    where not j.is_new and (j.t is not null or j.verdict is not null) and h.hop_id = j.hop_id and h.position = j.position;
    insert into relaybox.held (hop_id, "position", stream_id, sender_id, index, taken)
    select j.hop_id, j.position, here.stream_id, j.sender_id, j.index, j.taken
    from pg_temp.judged j where j.is_new and j.t is null and j.verdict is null;
    -- what operators gave up
    update relaybox.sender_state s set watermark = upper(r.r) - 1
    from (select t.sender_id, r from relaybox.sender_state t, unnest(t.skipped) r where t.stream_id = here.stream_id) r
    where s.sender_id = r.sender_id and r.r @> s.watermark + 1;
    -- nobody can repeat what a fenced epoch sent: its messages are refused unseen
    delete from relaybox.seen n using pg_temp.fence f where n.sender_id = f.sender_id;
    delete from relaybox.index_range n using pg_temp.fence f where n.sender_id = f.sender_id;
    update relaybox.sender_state s set fragment_count = 0, seen_beyond = 0, range_first_index = null, range_last_index = null,
        range_first_position = null, range_last_position = null
    from pg_temp.fence f where s.sender_id = f.sender_id;
    with old as (
        update relaybox.sender_state s set range_first_index = null, range_last_index = null, range_first_position = null, range_last_position = null
        from (
            select * from relaybox.sender_state o
            where o.stream_id = here.stream_id and o.range_last_position - o.range_first_position >= 100000
        ) o
        where s.sender_id = o.sender_id
        returning o.sender_id, o.range_first_index, o.range_last_index, o.range_first_position, o.range_last_position
    )
    insert into relaybox.index_range (sender_id, first_index, last_index, first_position, last_position) select * from old;
    update relaybox.sender_state s set
        held_count = h.held_count,
        stalled_after = case when h.reason is not null then last_position_ end, stalled_reason = h.reason,
        stalled_watermark = case when h.reason is not null then s.watermark end
    from (
        select t.sender_id, count(h.position) as held_count,
            case
                when count(h.position) >= here.holdback_rows then 'holdback_full'
                when t.fragment_count > here.fragments then 'set_full'
            end as reason
        from relaybox.sender_state t left join relaybox.held h on h.sender_id = t.sender_id
        where t.stream_id = here.stream_id and t.stalled_after is null
            and (t.sender_id in (select j.sender_id from pg_temp.judged j))
        group by t.sender_id
    ) h
    where s.sender_id = h.sender_id;
end
$$;
