-- The state of a row that no batch of a hop has: adopted, waiting, unrouted or retired, as
-- trace_reading() returns it. xid_ and topic_: of the row of the outbox. Planned with the seq, so that
-- only its segment is looked at.
create or replace function relaybox_internal.trace_unplanned(
    hop_ relaybox_internal.hop_out, reads bigint, xid_ xid8, topic_ text
)
returns text
language plpgsql stable
set plan_cache_mode = force_custom_plan
as $$
begin
    return case
        when exists (
            select from relaybox_internal.generation g
            where g.hop = hop_.hop and g.adopted_seqs @> reads
        ) then 'adopted'
        when hop_.reads_log is not null then 'waiting'
        else coalesce(
            (
                select case s.state when 'routed' then 'waiting' else s.state end
                from relaybox_internal.backlog_seqs(array[hop_.hop], reads - 1, reads) s limit 1
            ),
            case
                when topic_ = any(hop_.topics) and reads > hop_.anchor_seq
                    and not pg_visible_in_snapshot(xid_, hop_.lower) then 'waiting'
                else 'unrouted'
            end
        )
    end;
end
$$;
