-- Returns whether a clock can be read. Its entries are positive whole numbers or [epoch, index],
-- and its own entry, if there is one, is the message itself.
create or replace function relaybox_internal.clock_is_valid(
    clock jsonb, sender_ text, epoch_ integer, index_ bigint
)
returns boolean
language sql immutable parallel safe
as $$
    select coalesce(jsonb_typeof(clock) = 'object', true) and coalesce(bool_and(
        case
            when e.key = sender_
                then e.value = to_jsonb(index_) and epoch_ = 1
                    or e.value = jsonb_build_array(epoch_, index_)
            when jsonb_typeof(e.value) = 'number' then (e.value #>> '{}') ~ '^[1-9][0-9]{0,17}$'
            when jsonb_typeof(e.value) = 'array' and jsonb_array_length(e.value) = 2
                then jsonb_typeof(e.value -> 0) = 'number' and jsonb_typeof(e.value -> 1) = 'number'
                    and (e.value ->> 0) ~ '^[1-9][0-9]{0,8}$'
                    and (e.value ->> 1) ~ '^[1-9][0-9]{0,17}$'
            else false
        end
    ), true)
    from jsonb_each(case jsonb_typeof(clock) when 'object' then clock else '{}' end) e
$$;
