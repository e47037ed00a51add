-- Drops the oldest segment of the outbox (log_id_ null) or of a log if nobody needs a row of it (G8), and raises what is kept from.
-- outcome: dropped; kept (holder says by whom, needs_from from where on); busy: a session reads or writes there (holder), come again; none.
-- With detach_attempt: the segment that begins at detach_first may be needed by consumers that stopped, if that attempt has it in files;
-- outcome: detached; superseded: another attempt detached it, or is at it.
-- Called outside a transaction block: nobody waits for a client that falls silent here. Nobody waits longer than the lock timeout.
-- Locks in this order (docs/protocol.md): the table against makers of segments; the hops that read it, its stream, the hop that fills it, so
-- that no hop, subscription or replay begins meanwhile; when detaching, the lanes that need the segment, so that none of them reads
-- meanwhile; then the table itself.
create or replace function relaybox_internal.drop_oldest_segment(
    log_id_ integer, recorded_by text, detach_first bigint default null, detach_attempt integer default null,
    out outcome text, out segment text, out holder text, out bytes bigint, out needs_from bigint
)
language plpgsql volatile
set enable_seqscan = off
set lock_timeout = '200ms' -- producers and consumers wait as long behind the lock that is waited for
as $$
declare
    parent regclass := to_regclass(case when log_id_ is null then 'relaybox.outbox' else format('relaybox_internal.log_%s', log_id_) end);
    oldest record;
    held record;
    checked pg_snapshot;
    account_ jsonb;
    broken jsonb;
    late bigint;
    stream_position_ bigint;
    hops_before text;
    hops_now text;
begin
    perform relaybox_internal.require_writable_primary();
    -- what it rests on is durable already; a silent standby must not keep the lock on the table
    perform set_config('synchronous_commit', 'local', true);
    begin
        -- looked at without a lock: a long backlog takes its time, and hops are to be planned meanwhile
        hops_before := relaybox_internal.hops_fingerprint(log_id_);
        checked := pg_current_snapshot();
        select s.* into oldest from relaybox_internal.segments() s where s.log_id is not distinct from log_id_ order by s.first limit 1;
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
        select h.* into held from relaybox_internal.holders(log_id_) h
        where detach_attempt is null or not h.detachable order by h.needs_from, h.kind limit 1;
        if held.needs_from <= oldest.last then
            outcome := 'kept';
            holder := format('%s %s', held.kind, held.holder);
            needs_from := held.needs_from;
            return;
        end if;
        account_ := case when log_id_ is null then relaybox_internal.outbox_account(oldest.first - 1, oldest.last) end;
        -- G12: what no ledger accounts for, or two stream positions of one, is not dropped, whatever the watermarks say
        broken := jsonb_path_query_first(
            account_, '$[*] ? (@.missing_count > 0 || @.doubled_count > 0 || @.waiting_count > 0 || @.planned_count > 0)'
        );
        if broken is not null then
            outcome := 'kept';
            holder := format(
                'hop %s: of %s messages of topic %s %s are in no batch, %s in two, %s wait, %s are not confirmed; see: relaybox verify %s',
                broken ->> 'hop', broken ->> 'committed_count', broken ->> 'topic', broken ->> 'missing_count', broken ->> 'doubled_count',
                broken ->> 'waiting_count', broken ->> 'planned_count', split_part(broken ->> 'hop', '/', 1)
            );
            return;
        end if;
        late := case when log_id_ is null then relaybox_internal.unmoved_seq(oldest.first - 1, oldest.last) end;
        if late is not null then
            outcome := 'kept';
            holder := format('unrouted topic %s', (select o.topic from relaybox.outbox o where o.seq = late));
            needs_from := late;
            return;
        end if;
        -- no segment is made meanwhile: their makers take this lock, before that of a hop as here
        execute format('lock table only %s in share update exclusive mode', parent);
        perform from relaybox_internal.hop_out h where h.reads_log is not distinct from log_id_ order by h.hop for update;
        perform from relaybox_internal.stream s where s.stream_id = (select l.stream_id from relaybox_internal.stream_log l where l.log_id = log_id_) for update;
        perform from relaybox_internal.hop_in i where i.log_id = log_id_ for update;
        -- later statements than the locks
        hops_now := relaybox_internal.hops_fingerprint(log_id_);
        if hops_now is distinct from hops_before
            or oldest.first <> (select min(s.first) from relaybox_internal.segments() s where s.log_id is not distinct from log_id_)
        then
            outcome := 'busy';
            holder := 'a hop that changed, or another retention';
            return;
        end if;
        if detach_attempt is not null then
            perform from relaybox_internal.detached_segment d
            where d.log_id = log_id_ and d.first = oldest.first and d.state = 'detaching' and d.attempt = detach_attempt for update;
            if not found then
                outcome := 'superseded';
                return;
            end if;
            perform relaybox_internal.fence_lanes(log_id_, oldest.last);
        end if;
        if log_id_ is not null then
            select h.* into held from relaybox_internal.log_holders(log_id_) h
            where h.needs_from <= oldest.last and (detach_attempt is null or not h.detachable) order by h.needs_from, h.kind limit 1;
            if found then
                outcome := 'kept';
                holder := format('%s %s', held.kind, held.holder);
                needs_from := held.needs_from;
                return;
            end if;
        end if;
        execute format('lock table %s in access exclusive mode', parent);
        if log_id_ is null then
            -- nobody writes now; whoever has committed since the look above is in nobody's batch yet
            execute format(
                'select min(o.seq) from %s o where (o.xid >= pg_snapshot_xmax($1) or o.xid = any(array(select pg_snapshot_xip($1)))) and o.seq > $2',
                oldest.segment
            ) into late using checked, (select s.anchor_seq from relaybox_internal.store s);
            if late is not null then
                outcome := 'kept';
                holder := 'a sender that committed just now';
                return;
            end if;
            update relaybox_internal.store set first_kept_seq = oldest.last + 1;
        else
            select relaybox_internal.last_stream_position_through(l.stream_id, log_id_, oldest.last) into stream_position_ from relaybox_internal.stream_log l
                where l.log_id = log_id_;
            update relaybox_internal.stream s set first_kept_stream_position = greatest(s.first_kept_stream_position, stream_position_ + 1),
                dropped_stream_position = case when detach_attempt is null then greatest(s.dropped_stream_position,
                stream_position_) else s.dropped_stream_position end
            where s.stream_id = (select l.stream_id from relaybox_internal.stream_log l where l.log_id = log_id_);
            update relaybox_internal.hop_in set first_kept_position = oldest.last + 1 where log_id = log_id_;
        end if;
        execute format('drop table %s', oldest.segment);
        outcome := case when detach_attempt is null then 'dropped' else 'detached' end;
        update relaybox_internal.detached_segment d
        set state = case when detach_attempt is null then 'released' else 'detached' end, moved_at = clock_timestamp(), moved_by = recorded_by
        where d.log_id = log_id_ and d.first = oldest.first;
        if detach_attempt is null then
            insert into relaybox_internal.dropped_segment (segment, hop, first, last, bytes, dropped_by, account)
            values (
                segment, (select i.hop from relaybox_internal.hop_in i where i.log_id = log_id_), oldest.first, oldest.last, drop_oldest_segment.bytes,
                recorded_by,
                account_
            );
        end if;
    exception when lock_not_available then
        outcome := 'busy';
        holder := (
            select string_agg(distinct format('%s (pid %s, %s since %s)',
                coalesce(nullif(a.application_name, ''), a.usename, 'a prepared transaction'), coalesce(l.pid::text, 'none'),
                coalesce(a.state, 'prepared'), coalesce(to_char(a.xact_start at time zone 'UTC', 'HH24:MI:SS'), 'unknown')), ', ')
            from pg_locks l
            left join pg_stat_activity a on a.pid = l.pid
            where l.relation = parent and l.granted and l.pid is distinct from pg_backend_pid()
                and l.database = (select d.oid from pg_database d where d.datname = current_database())
        );
    end;
end
$$;
