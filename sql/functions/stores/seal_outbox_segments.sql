-- Seals segments of the outbox that the sequence has passed, oldest first: their tables refuse rows
-- from then on. Call it twice: the first call (nulls) notes which transactions were writing to the
-- outbox when the sequence had passed a segment: they may have a seq of it that they have not
-- inserted yet. A later call, with what the one before returned, seals if these have ended; nobody
-- waits for them. If nobody wrote, the first call seals. A writer that was missed is refused aloud
-- (refuse_late_row), never lost. through_seq, writers: for the next call; null: no segment is left
-- to seal. sealed_count: at most 20, then call it again. A segment is not sealed while a session
-- writes or maintains it, if it has a row of a transaction that has not begun, if a segment is
-- missing below it, or in a store that was loaded from a dump and not reanchored yet.
-- Locks each segment in SHARE ROW EXCLUSIVE mode: readers and producers do not wait. Caller: a fresh
-- READ COMMITTED transaction. Raises RB001, RB002.
create or replace function relaybox_internal.seal_outbox_segments(
    noted_seq bigint default null, noted_writers text[] default null,
    out through_seq bigint, out writers text[], out sealed_count integer
)
language plpgsql volatile security definer
set search_path = pg_catalog, relaybox, pg_temp
set row_security = off
set enable_seqscan = off
as $$
declare
    -- read before the writers are listed: who begins to write later takes higher seqs
    given_seq constant bigint := coalesce(pg_sequence_last_value('relaybox.outbox_seq'), 0);
    sealed_seq bigint;
    candidate record;
    candidates oid[] := '{}';
    firsts bigint[] := '{}';
    lasts bigint[] := '{}';
    now_writing text[];
    sealed_by xid8;
    has_later_row boolean;
    ids record;
begin
    perform relaybox_internal.require_fresh_transaction(
        'sealing', 'its number must be higher than that of each transaction that has a row in the segment'
    );
    sealed_count := 0;
    if relaybox_internal.is_reloaded() then
        return;
    end if;
    -- what came with a dump is no seal here
    sealed_seq := relaybox_internal.sealed_through(relaybox_internal.full_snapshot());
    for candidate in
        select s.segment, s.first, s.last
        from relaybox_internal.segments() s
        where s.log_id is null and s.last <= given_seq and s.last > sealed_seq
        order by s.first
        limit 20
    loop
        exit when candidate.first <> coalesce(
            lasts[cardinality(lasts)], nullif(sealed_seq, 0), candidate.first - 1
        ) + 1;
        candidates := candidates || candidate.segment::oid;
        firsts := firsts || candidate.first;
        lasts := lasts || candidate.last;
    end loop;
    if candidates = '{}' then
        return;
    end if;
    now_writing := array(
        select distinct l.virtualtransaction
        from pg_locks l
        where l.locktype = 'relation' and l.relation = 'relaybox.outbox'::regclass
            and l.database = (select d.oid from pg_database d where d.datname = current_database())
            and l.mode = 'RowExclusiveLock' and l.granted and l.pid is distinct from pg_backend_pid()
        order by 1
    );
    through_seq := given_seq;
    writers := now_writing;
    if now_writing <> '{}' and noted_seq is null then
        return;
    elsif now_writing && noted_writers then
        -- the same note with those that are left: others that have begun since are not waited for
        through_seq := noted_seq;
        writers := array(select unnest(noted_writers) intersect select unnest(now_writing) order by 1);
        return;
    end if;
    for n in 1 .. cardinality(candidates) loop
        exit when now_writing <> '{}' and lasts[n] > noted_seq;
        begin
            execute format(
                'lock table only %s in share row exclusive mode nowait', candidates[n]::regclass
            );
        exception when lock_not_available then
            exit;
        end;
        sealed_count := n;
    end loop;
    if sealed_count = 0 then
        return;
    end if;
    -- after all locks, so that each row that is here has a lower one
    sealed_by := pg_current_xact_id();
    for n in 1 .. sealed_count loop
        execute format('select exists (select from %s o where o.xid >= $1)', candidates[n]::regclass)
        into has_later_row using sealed_by;
        if has_later_row then
            sealed_count := n - 1;
            exit;
        end if;
        execute format(
            'create or replace trigger refuse_late_row before insert on %s '
            'for each row execute function relaybox_internal.refuse_late_row()',
            candidates[n]::regclass
        );
        -- also in a session with session_replication_role = replica
        execute format(
            'alter table %s enable always trigger refuse_late_row', candidates[n]::regclass
        );
        -- each is one look into the index; no row comes or changes any more
        execute format(
            'select (select o.message_id from %1$s o order by o.message_id limit 1) as first, '
            '(select o.message_id from %1$s o order by o.message_id desc limit 1) as last',
            candidates[n]::regclass
        )
        into ids;
        delete from relaybox_internal.sealed_segment s where s.last_seq = lasts[n];
        insert into relaybox_internal.sealed_segment
            (last_seq, first_seq, segment, sealed_xid, first_message_id, last_message_id)
        values (lasts[n], firsts[n], candidates[n], sealed_by, ids.first, ids.last);
    end loop;
end
$$;
