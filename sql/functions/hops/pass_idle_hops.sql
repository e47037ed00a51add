-- Moves the newest snapshot of hops that have nothing to move past all that others have sent since, as
-- their own drivers do of a wide empty pair (skip_empty_pair). Else each look at them would begin where
-- they last moved something. Waits for no lock. A hop stays where it is if another session holds it, if
-- it has a driver, something to move, or a source that lost history, and if it looks back at fewer than
-- least_rows rows of one segment. Flushed, without waiting for a standby.
-- Caller: a fresh READ COMMITTED transaction of this statement alone, so that no hop stays locked while
-- a client does not answer. beside: the hop of the caller. most_rows: how many rows are read while the
-- hops are locked. passed: how many were moved on. has_more: the next call gets further. Raises RB001,
-- RB002 (the transaction is not fresh), RB003, RB009 as lock_hop().
create or replace function relaybox_internal.pass_idle_hops(
    beside text, least_rows bigint, most_rows bigint, out passed integer, out has_more boolean
)
language plpgsql volatile
as $$
declare
    heads relaybox_internal.hop_out[];
    far text[];
    taken pg_snapshot;
    looked record;
begin
    perform relaybox_internal.require_fresh_transaction(
        'moving idle hops on', 'a snapshot taken after a write counts the own rows as visible'
    );
    -- a crash must not take it back; a standby that hangs must not keep the hops locked
    set local synchronous_commit = local;
    perform relaybox_internal.refuse_unlogged();
    perform relaybox_internal.refuse_changed_xid();
    perform relaybox_internal.refuse_changed_view();
    heads := array(
        select h from relaybox_internal.hop_out h
        where h.hop <> beside and h.reads_log is null and h.retired_at is null
            and not relaybox_internal.has_unfinished(h.hop, h.batch)
            and not exists (
                select from relaybox_internal.trusted_sessions() t
                where t.name = 'relaybox ' || h.hop || ' driver'
            )
    );
    far := array(select relaybox_internal.hops_that_look_back(heads, least_rows));
    passed := 0;
    has_more := false;
    if far = '{}' then
        return;
    end if;
    heads := array(select h from relaybox_internal.lock_idle_hops(far) h);
    -- each is a statement, as in a plan: the snapshot is later than the locks, and the look is later than the snapshot
    select pg_current_snapshot() into taken;
    select * into looked from relaybox_internal.look_at_outbox(heads, most_rows);
    -- a snapshot does not name its own transaction as open: what the caller inserts after this must not count as seen
    update relaybox_internal.hop_out h
    set lower = n.lower
    from relaybox_internal.snapshot_below(
        taken, least(looked.through_xid, pg_current_xact_id_if_assigned())
    ) n (lower)
    where h.hop = any(looked.idle)
        and pg_snapshot_xmax(h.lower) < pg_snapshot_xmax(n.lower)
        and not relaybox_internal.has_unfinished(h.hop, h.batch);
    get diagnostics passed = row_count;
    has_more := passed > 0 and looked.through_xid < pg_snapshot_xmax(taken);
end
$$;
