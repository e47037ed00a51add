-- The slices of a batch with named columns. The ledger keeps each as [slice, first_read, last_read,
-- first_position, row_count]. Inlined.
create or replace function relaybox_internal.batch_slices(slices jsonb)
returns table (
    slice integer, first_read bigint, last_read bigint, first_position bigint, row_count bigint
)
language sql immutable parallel safe
as $$
    select (s ->> 0)::integer, (s ->> 1)::bigint, (s ->> 2)::bigint, (s ->> 3)::bigint,
        (s ->> 4)::bigint
    from jsonb_array_elements(slices) s
$$;
