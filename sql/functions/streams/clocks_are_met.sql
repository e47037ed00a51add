-- Returns whether each message that the clocks of a batch name was delivered before the batch, or
-- comes before the clock's message in it. For a batch whose senders are all in order in themselves.
-- False also for a clock that cannot be read (clock_is_valid()), and for a named message that only
-- the rules of epochs and skips resolve: classify_rows() decides on such batches.
create or replace function relaybox_internal.clocks_are_met(
    stream_id_ integer, log_id_ integer, first_position_ bigint, last_position_ bigint
)
returns boolean
language plpgsql stable
set work_mem = '256MB'
set enable_nestloop = off
set enable_mergejoin = off
set enable_seqscan = off
set jit = off
as $$
begin
    return not exists (
        select
        from (
            select n.log_position, n.key as sender, n.key = n.own_sender as is_own,
                case
                    when n.kind = 'number' then n.own_epoch = 1 and n.value = n.own_index::text
                    when n.kind = 'array'
                        then n.value = format('[%s, %s]', n.own_epoch, n.own_index)
                end as is_own_index,
                case
                    when n.kind = 'number' then 1
                    when n.kind = 'array' then (n.value::jsonb ->> 0)::integer
                end as epoch,
                case
                    when n.kind = 'number' then n.value::bigint
                    when n.kind = 'array' then (n.value::jsonb ->> 1)::bigint
                end as index
            from (
                select m.log_position, m.sender as own_sender, m.epoch as own_epoch,
                    m.index as own_index, e.key, e.value,
                    case
                        when ltrim(e.value, '0123456789') = ''
                                and length(e.value) between 1 and 18 and left(e.value, 1) <> '0'
                            or e.value ~ e'^\\[[1-9][0-9]{0,8}, [1-9][0-9]{0,17}\\]$'
                            then nullif(jsonb_typeof(m.clock -> e.key), 'string')
                    end as kind
                from relaybox_internal.log m
                cross join lateral jsonb_each_text(
                    case jsonb_typeof(m.clock) when 'object' then m.clock else '{"": 0}' end
                ) e
                where m.log_id = log_id_ and m.log_position >= first_position_
                    and m.log_position <= last_position_ and m.clock is not null
                offset 0
            ) n
            offset 0
        ) named
        left join relaybox_internal.sender_state s
            on s.stream_id = stream_id_ and s.sender = named.sender and s.epoch = named.epoch
        left join (
            select l.sender, l.epoch, l.index, l.log_position
            from relaybox_internal.log l
            where l.log_id = log_id_ and l.log_position >= first_position_
                and l.log_position <= last_position_
            offset 0
        ) cause
            on cause.sender = named.sender and cause.epoch = named.epoch
                and cause.index = named.index
        where case
                when named.is_own then named.is_own_index is not true
                else (
                    s.watermark >= named.index or cause.log_position < named.log_position
                ) is not true
            end
    );
end
$$;
