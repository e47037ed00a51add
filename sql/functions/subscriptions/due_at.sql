-- Until when a delayed message is not given: then it may be, or it has expired. Null: it is not
-- delayed. Inlined.
create or replace function relaybox_internal.due_at(headers jsonb) returns timestamptz
language sql immutable parallel safe
as $$
    select case
        when relaybox_internal.deliver_after(headers) is not null then least(
            relaybox_internal.deliver_after(headers), relaybox_internal.expires_at(headers)
        )
    end
$$;
