-- Returns for each hop that leaves this store what hop_has_work() says of it. The outbox is read once
-- for all hops that have nothing to read there, not once for each of them.
create or replace function relaybox_internal.hops_with_work()
returns table (hop text, has_work boolean)
language plpgsql stable
as $$
declare
    idle constant text[] := (
        relaybox_internal.look_at_outbox(
            array(
                select h from relaybox_internal.hop_out h
                where h.reads_log is null and h.retired_at is null
                    and not relaybox_internal.has_unfinished(h.hop, h.batch)
            ),
            null
        )
    ).idle;
begin
    return query
    select h.hop, i.hop is null and relaybox_internal.hop_has_work(h.hop)
    from relaybox_internal.hop_out h
    left join unnest(idle) i (hop) on i.hop = h.hop;
end
$$;
