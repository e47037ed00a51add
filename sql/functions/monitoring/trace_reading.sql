-- Where a hop puts what it reads at `reads` (a seq of the outbox, or a position of the log): batch,
-- slice, position, recomputed from the ledger, and when the confirmations that cover it were
-- recorded here. state: waiting (for a batch), unrouted (the hop has not its topic: kept), retired
-- (given up on record), adopted (delivered by a ledger that this store lost), planned.
create or replace function relaybox_internal.trace_reading(
    hop_name text, reads bigint,
    out state text, out batch bigint, out slice integer, out log_position bigint, out planned_at timestamptz,
    out received_at timestamptz, out received_by text, out processed_at timestamptz, out processed_by text,
    out settled_at timestamptz, out settled_by text, out moved_by text, out application text
)
language plpgsql stable
as $$
declare
    head relaybox_internal.hop_out;
    message record;
    planned relaybox_internal.batch;
    piece record;
    begins_at bigint := (select s.first_kept_seq from relaybox_internal.store s);
begin
    select * into head from relaybox_internal.hop_out h where h.hop = hop_name;
    select o.xid, o.topic into message from relaybox.outbox o where head.reads_log is null and o.seq = reads;
    select * into planned from relaybox_internal.batch b
    where b.hop = hop_name and (b.adopted or b.reads_after < reads and b.reads_through >= reads)
        and (head.reads_log is not null or message.topic = any(b.topics))
        and exists (select from relaybox_internal.batch_slices(b.slices) s where s.first_read <= reads and s.last_read >= reads)
        and (head.reads_log is not null
            or pg_visible_in_snapshot(message.xid, b.upper) and not pg_visible_in_snapshot(message.xid, b.lower));
    if not found then
        state := case
            when exists (select from relaybox_internal.generation g where g.hop = hop_name and g.adopted_seqs @> reads) then 'adopted'
            when head.reads_log is not null then 'waiting'
            else coalesce(
                (select case s.state when 'routed' then 'waiting' else s.state end from relaybox_internal.backlog_seqs(hop_name, reads - 1, reads) s limit 1),
                case
                    when message.topic = any(head.topics) and reads > head.anchor_seq
                        and not pg_visible_in_snapshot(message.xid, head.lower) then 'waiting'
                    else 'unrouted'
                end
            )
        end;
        return;
    end if;
    state := 'planned';
    batch := planned.batch;
    planned_at := planned.planned_at;
    select a.recorded_by, a.application into moved_by, application from relaybox_internal.attempt a
    where a.hop = hop_name and a.batch = planned.batch order by a.attempt desc limit 1;
    select * into piece from relaybox_internal.batch_slices(planned.slices) s where s.first_read <= reads and s.last_read >= reads;
    slice := piece.slice;
    log_position := case
        when head.reads_log is not null then reads - piece.first_read + piece.first_position
        -- retention has dropped the slice's beginning: counted from its end
        when piece.first_read < begins_at then (
            select piece.first_position + piece.row_count - 1 - count(*)
            from relaybox_internal.read_outbox_slice(planned.lower, planned.upper, planned.topics, reads + 1, piece.last_read, 0) r
        )
        else (
            select max(r.log_position)
            from relaybox_internal.read_outbox_slice(
                planned.lower, planned.upper, planned.topics, piece.first_read, reads, piece.first_position
            ) r
        )
    end;
    select c.recorded_at, c.recorded_by into received_at, received_by
    from relaybox_internal.confirmation_of(hop_name, 'received', trace_reading.log_position) c;
    select c.recorded_at, c.recorded_by into processed_at, processed_by
    from relaybox_internal.confirmation_of(hop_name, 'processed', trace_reading.log_position) c;
    select c.recorded_at, c.recorded_by into settled_at, settled_by
    from relaybox_internal.confirmation_of(hop_name, 'settled', trace_reading.log_position) c;
end
$$;
