-- Returns the index that must be resolved before a sender's message counts as delivered: its own
-- index, or, if that was given up or set aside early, the last one before it that was not. skipped:
-- the one of sender_state.
create or replace function relaybox_internal.index_to_resolve(skipped int8multirange, index bigint)
returns bigint
language sql immutable
as $$
    select case
        when skipped @> index then (select lower(r) - 1 from unnest(skipped) r where r @> index)
        else index
    end
$$;
