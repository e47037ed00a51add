-- Moves the sequence of the outbox behind all rows, all sealed segments and all segments that
-- retention has dropped, and gives new seqs to the rows that it had put before all segments, in their order. Rows that a hop
-- has planned keep theirs: its slices name them. The overflow is made anew, so that Postgres counts
-- no row as removed. Called by init, with the rights of the owner. Locks the hops that read the
-- outbox, as lock_hop() does, then the outbox: a snapshot of a plan is taken before or after it.
create or replace function relaybox_internal.advance_outbox_seq() returns void
language plpgsql volatile
as $$
declare
    head record;
    last_seq bigint;
begin
    perform from relaybox_internal.hop_out h
    where h.reads_log is null and h.retired_at is null order by h.hop for update;
    lock table relaybox.outbox in access exclusive mode;
    select * into head from relaybox_internal.outbox_seq_state();
    -- a rollback, of a dry run too, undoes what is set after it
    alter sequence relaybox.outbox_seq restart;
    last_seq := setval('relaybox.outbox_seq', greatest(
        head.last_seq, head.newest_seq, head.first_kept - 1, 1,
        (select max(s.last_seq) from relaybox_internal.sealed_segment s)
    ));
    if head.stray_count = 0 then
        return;
    end if;
    alter table relaybox.outbox detach partition relaybox_internal.outbox_overflow;
    alter table relaybox_internal.outbox_overflow rename to outbox_before;
    create table relaybox_internal.outbox_overflow partition of relaybox.outbox default;
    perform relaybox_internal.limit_rights('relaybox_internal.outbox_overflow'::regclass, 'relaybox.outbox'::regclass);
    insert into relaybox.outbox (
        seq, xid, message_id, index, sent_at, epoch, topic, sender, key, headers, payload, payload_bytes, clock
    )
    select
        case when r.is_stray then last_seq + row_number() over (partition by r.is_stray order by r.seq) else r.seq end,
        r.xid, r.message_id, r.index, r.sent_at, r.epoch, r.topic, r.sender, r.key, r.headers, r.payload, r.payload_bytes, r.clock
    from (
        select b.*, b.seq < head.first_kept and not exists (select from relaybox_internal.hops_that_planned(b.xid)) as is_stray
        from relaybox_internal.outbox_before b
    ) r;
    drop table relaybox_internal.outbox_before;
    perform setval('relaybox.outbox_seq', last_seq + head.stray_count);
end
$$;
