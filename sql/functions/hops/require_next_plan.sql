-- Raises RB005 if the previous batch of a hop is not confirmed, or if a plan does not begin where
-- the hop stands: at the first routed piece of its backlog, else at its newest snapshot, else after
-- the last position that it has read of its log. Caller holds the hop's row.
create or replace function relaybox_internal.require_next_plan(
    head relaybox_internal.hop_out, piece relaybox_internal.backlog, backlog_id_ bigint,
    lower_ pg_snapshot, upper_ pg_snapshot, reads_after_ bigint
)
returns void
language plpgsql stable
as $$
begin
    if head.batch > 0 and not exists (
        select from relaybox_internal.confirmation c
        where c.hop = head.hop and c.state = 'received' and c.through_batch = head.batch
    ) then
        raise exception using errcode = 'RB005',
            message = format('hop %s: batch %s is not confirmed yet', head.hop, head.batch);
    end if;
    if piece.backlog_id is distinct from backlog_id_ then
        raise exception using errcode = 'RB005',
            message = format('hop %s: the first piece of its backlog comes next', head.hop);
    end if;
    if head.reads_log is not null and reads_after_ <> relaybox_internal.log_read_through(head.hop)
        or piece.backlog_id is not null
        and (lower_::text, upper_::text, reads_after_)
        is distinct from (piece.lower::text, piece.upper::text, lower(piece.seqs) - 1)
        or head.reads_log is null and piece.backlog_id is null
        and (lower_::text, reads_after_) is distinct from (head.lower::text, 0::bigint)
    then
        raise exception using errcode = 'RB005',
            message = format('hop %s: the plan does not follow batch %s', head.hop, head.batch);
    end if;
end
$$;
