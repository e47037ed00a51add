-- The log position at which a hop puts the row that it reads at `reads` (a seq of the outbox, or a
-- position of a log): batch, slice and position, computed again from the ledger, and when the
-- confirmations that cover it were recorded here. state: planned, waiting (for a batch), unrouted
-- (the hop does not have its topic), retired (given up on record), adopted (delivered by a ledger
-- that this store lost).
create or replace function relaybox_internal.trace_reading(
    hop_name text, reads bigint,
    out state text, out batch bigint, out slice integer, out log_position bigint,
    out planned_at timestamptz,
    out received_at timestamptz, out received_by text,
    out processed_at timestamptz, out processed_by text,
    out settled_at timestamptz, out settled_by text, out moved_by text, out application text
)
language plpgsql stable
as $$
declare
    hop_ relaybox_internal.hop_out;
    message record;
    planned relaybox_internal.batch;
begin
    select * into hop_ from relaybox_internal.hop_out h where h.hop = hop_name;
    select o.xid, o.topic into message
    from relaybox_internal.sent_row(reads) o where hop_.reads_log is null;
    select * into planned from relaybox_internal.batch b
    where b.hop = hop_name and (b.adopted or b.reads_after < reads and b.reads_through >= reads)
        and (hop_.reads_log is not null or message.topic = any(b.topics))
        and exists (
            select from relaybox_internal.batch_slices(b.slices) s
            where s.first_read <= reads and s.last_read >= reads
        )
        and (
            hop_.reads_log is not null
            or pg_visible_in_snapshot(message.xid, b.upper)
            and not pg_visible_in_snapshot(message.xid, b.lower)
        );
    if not found then
        state := relaybox_internal.trace_unplanned(hop_, reads, message.xid, message.topic);
        return;
    end if;
    state := 'planned';
    batch := planned.batch;
    planned_at := planned.planned_at;
    select a.recorded_by, a.application into moved_by, application
    from relaybox_internal.attempt a
    where a.hop = hop_name and a.batch = planned.batch order by a.attempt desc limit 1;
    select p.slice, p.log_position into slice, log_position
    from relaybox_internal.trace_planned(planned, hop_.reads_log is not null, reads) p;
    select c.recorded_at, c.recorded_by into received_at, received_by
    from relaybox_internal.confirmation_of(hop_name, 'received', trace_reading.log_position) c;
    select c.recorded_at, c.recorded_by into processed_at, processed_by
    from relaybox_internal.confirmation_of(hop_name, 'processed', trace_reading.log_position) c;
    select c.recorded_at, c.recorded_by into settled_at, settled_by
    from relaybox_internal.confirmation_of(hop_name, 'settled', trace_reading.log_position) c;
end
$$;
