-- Returns a clock's entries: {"sender": index} or {"sender": [epoch, index]}. Only for clocks that
-- clock_is_valid() accepts.
create or replace function relaybox_internal.clock_entries(clock jsonb)
returns table (sender text, epoch integer, index bigint)
language sql immutable parallel safe
as $$
    select
        e.key, case jsonb_typeof(e.value) when 'array' then (e.value ->> 0)::integer else 1 end,
        case jsonb_typeof(e.value)
            when 'array' then (e.value ->> 1)::bigint
            else (e.value #>> '{}')::bigint
        end
    from jsonb_each(coalesce(clock, '{}')) e
$$;
