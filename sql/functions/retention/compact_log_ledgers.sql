-- Removes what was written down about batches of a log of which no message is kept, nor detached: receipts, arrivals, decisions,
-- runs of places, ranges of indexes. Their counts stay. Returns how many batches; again: none. Locks the rows that publish and deliver lock.
create or replace function relaybox.compact_log_ledgers(log_id integer) returns bigint
language plpgsql volatile
set lock_timeout = '500ms'
as $$
declare
    head relaybox.hop_in;
    input relaybox.stream_log;
    here relaybox.stream;
    last record;
    gone bigint;
    kept_from bigint;
begin
    perform relaybox.require_writable_primary();
    perform set_config('synchronous_commit', 'local', true);
    select * into head from relaybox.hop_in i where i.hop_id = log_id for update;
    kept_from := relaybox.log_kept_from(log_id);
    select s.* into here from relaybox.stream s join relaybox.stream_log l using (stream_id) where l.hop_id = log_id for update of s;
    select * into input from relaybox.stream_log l where l.hop_id = log_id;
    select a.batch, a.last_position, a.plan_id into last from relaybox.arrival a
    where a.hop_id = log_id and a.last_position < kept_from and a.batch < head.published_batch and a.batch < input.decided_batch
    order by a.last_position desc limit 1;
    if not found then
        return 0;
    end if;
    delete from relaybox.receipt r where r.hop_id = log_id and r.batch <= last.batch;
    with forgotten as (
        delete from relaybox.decision d where d.hop_id = log_id and d.batch <= last.batch returning d.duplicate_count, d.decided_at, d.last_place
    ), total as (
        select coalesce(sum(f.duplicate_count), 0) as duplicates, max(f.decided_at) as decided_at, max(f.last_place) as place from forgotten f
    )
    update relaybox.stream_log l set
        compacted_duplicates = l.compacted_duplicates + t.duplicates,
        compacted_decided_at = greatest(l.compacted_decided_at, t.decided_at), compacted_place = greatest(l.compacted_place, t.place)
    from total t
    where l.hop_id = log_id;
    -- with no older decision left, the time of what was released late is that of what is compacted
    with forgotten as (
        delete from relaybox.late_delivery r
        where r.stream_id = here.stream_id and r.delivered_at <= (
            select min(oldest.decided_at)
            from relaybox.stream_log g
            cross join lateral (
                select k.decided_at from relaybox.decision k where k.hop_id = g.hop_id order by k.decided_at limit 1
            ) oldest
            where g.stream_id = here.stream_id
        )
        returning r.delivered_at
    )
    update relaybox.stream_log l set compacted_decided_at = greatest(l.compacted_decided_at, f.newest)
    from (select max(f.delivered_at) as newest from forgotten f) f
    where l.hop_id = log_id and f.newest is not null;
    delete from relaybox.arrival a where a.hop_id = log_id and a.batch <= last.batch;
    get diagnostics gone = row_count;
    delete from relaybox.delivery d
    where d.stream_id = here.stream_id and d.hop_id = log_id and d.last_place < least(here.dropped_place + 1, here.last_place)
        and coalesce((select max(u.at) from unnest(d.positions) u (at)), d.first_position + d.last_place - d.first_place) < kept_from;
    delete from relaybox.index_range r using relaybox.sender_state s
    where s.stream_id = here.stream_id and s.origin = input.origin and r.sender_id = s.sender_id and r.last_position < kept_from;
    update relaybox.hop_in set compacted_batch = last.batch, compacted_position = last.last_position, compacted_plan_id = last.plan_id
    where hop_id = log_id;
    return gone;
end
$$;
