-- Drops the oldest segment of the outbox (log_id_ null) or of a log if no reader needs a row of it
-- (G8), and raises the first row that is kept. With detach_attempt: detaches the segment that
-- begins at detach_first, if that attempt has it in files; then stopped consumers may need it.
-- outcome: dropped; detached; kept (holder: the reader that needs it, needs_from: its first row);
-- busy (a session reads or writes there: holder; call again); superseded (another attempt detaches
-- or detached it); none. Call it outside a transaction block: then no session waits for a client
-- that hangs. No session waits longer than the lock timeout. Locks: see remove_segment().
create or replace function relaybox_internal.drop_oldest_segment(
    log_id_ integer, recorded_by text,
    detach_first bigint default null, detach_attempt integer default null,
    out outcome text, out segment text, out holder text, out bytes bigint, out needs_from bigint
)
language plpgsql volatile security definer
set search_path = pg_catalog, relaybox, pg_temp
set row_security = off
set enable_seqscan = off
-- producers and consumers wait this long behind the lock that this function waits for
set lock_timeout = '200ms'
as $$
declare
    parent constant regclass := to_regclass(
        case
            when log_id_ is null then 'relaybox.outbox'
            else format('relaybox_internal.log_%s', log_id_)
        end
    );
    oldest record;
    needed record;
    removed relaybox_internal.dropped_segment;
    checked pg_snapshot;
    hops_checked text;
begin
    perform relaybox_internal.require_writable_primary();
    -- What it relies on is durable already. A standby that hangs must not keep the table locked.
    perform set_config('synchronous_commit', 'local', true);
    hops_checked := relaybox_internal.hops_fingerprint(log_id_);
    checked := pg_current_snapshot();
    select s.* into oldest from relaybox_internal.segments() s
    where s.log_id is not distinct from log_id_ order by s.first limit 1;
    if not found then
        outcome := 'none';
        return;
    end if;
    if detach_first <> oldest.first then
        outcome := 'superseded';
        return;
    end if;
    segment := oldest.segment::text;
    bytes := pg_total_relation_size(oldest.segment);
    needed := relaybox_internal.segment_needed_by(
        log_id_, oldest.first, oldest.last, detach_attempt is not null
    );
    if needed.holder is not null then
        outcome := 'kept';
        holder := needed.holder;
        needs_from := needed.needs_from;
        return;
    end if;
    removed.segment := segment;
    removed.first := oldest.first;
    removed.last := oldest.last;
    removed.bytes := bytes;
    removed.dropped_by := recorded_by;
    removed.account := needed.account;
    select r.outcome, r.holder, r.needs_from into outcome, holder, needs_from
    from relaybox_internal.remove_segment(
        log_id_, parent, removed, detach_attempt, checked, hops_checked
    ) r;
exception when lock_not_available or deadlock_detected then -- a maker of segments wants a lock that this one blocks
    outcome := 'busy';
    holder := relaybox_internal.sessions_with_lock(parent);
end
$$;
