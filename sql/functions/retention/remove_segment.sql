-- The part of drop_oldest_segment() under locks: looks again whether a reader needs the segment,
-- records its removal and drops its table. checked and hops_checked: the snapshot and the hops of
-- the look without locks. Locks, in this order: payload_collection, for which it does not wait: who
-- reads the references to payloads of all stores must find each message where it was;
-- lock_segment_readers(); when detaching, the lanes that need the segment, so that none of them reads
-- meanwhile; then the table. Raises 55P03.
create or replace function relaybox_internal.remove_segment(
    log_id_ integer, parent regclass, removed relaybox_internal.dropped_segment,
    detach_attempt integer, checked pg_snapshot, hops_checked text,
    out outcome text, out holder text, out needs_from bigint
)
language plpgsql volatile
as $$
declare
    detaching constant boolean := detach_attempt is not null;
begin
    begin
        lock table relaybox_internal.payload_collection in row share mode nowait;
    exception when lock_not_available then
        outcome := 'busy';
        holder := relaybox_internal.sessions_with_lock('relaybox_internal.payload_collection');
        return;
    end;
    perform relaybox_internal.lock_segment_readers(log_id_, parent);
    -- These statements come after the locks: they see what changed before the locks were taken.
    if relaybox_internal.hops_fingerprint(log_id_) is distinct from hops_checked
        or removed.first <> (
            select min(s.first) from relaybox_internal.segments() s
            where s.log_id is not distinct from log_id_
        )
    then
        outcome := 'busy';
        holder := 'a hop that changed, or another retention';
        return;
    end if;
    if detaching then
        if not relaybox_internal.is_detaching(log_id_, removed.first, detach_attempt) then
            outcome := 'superseded';
            return;
        end if;
        perform relaybox_internal.fence_lanes(log_id_, removed.last);
    end if;
    if log_id_ is not null then
        select format('%s %s', h.kind, h.holder), h.needs_from into holder, needs_from
        from relaybox_internal.log_holders(log_id_) h
        where h.needs_from <= removed.last and not (detaching and h.detachable)
        order by h.needs_from, h.kind
        limit 1;
        if found then
            outcome := 'kept';
            return;
        end if;
    end if;
    execute format('lock table %s in access exclusive mode', parent);
    if log_id_ is null
        and relaybox_internal.committed_since(removed.segment::regclass, checked) is not null
    then
        outcome := 'kept';
        holder := 'a sender that committed just now';
        return;
    end if;
    perform relaybox_internal.record_segment_removed(log_id_, removed, detaching);
    execute format('drop table %s', removed.segment);
    outcome := case when detaching then 'detached' else 'dropped' end;
end
$$;
