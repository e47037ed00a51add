-- Gives up, on record, what a hop has not planned of topics that it does not have any more, or
-- never had. Messages that commit later are unrouted, and kept. Returns the number of pieces that
-- were given up; 0: there was nothing. Locks the hop's row, as planning does. Raises RB004, RB006
-- (a topic is routed).
create or replace function relaybox_internal.retire_topics(
    hop_name text, topics_ text[], reason text, recorded_by text
)
returns bigint
language plpgsql volatile
as $$
declare
    head relaybox_internal.hop_out;
    until pg_snapshot;
    strange text[];
    written int8multirange;
    newest bigint;
    piece_count bigint;
begin
    perform relaybox_internal.require_writable_primary();
    set local synchronous_commit = on;
    select * into head
    from relaybox_internal.hop_out h where h.hop = hop_name and h.reads_log is null
    for update;
    if not found then
        raise exception using errcode = 'RB004',
            message = format('hop %s does not read the outbox of this store', hop_name),
            hint = 'Run: relaybox retire';
    end if;
    if head.topics && topics_ and head.retired_at is null then
        raise exception using errcode = 'RB006',
            message = format(
                'hop %s moves topic %s', hop_name,
                (select t from unnest(topics_) t where t = any(head.topics) order by 1 limit 1)
            ),
            hint = 'Take the topic out of the route in relaybox.yaml and run: relaybox init';
    end if;
    -- a topic that the hop never had counts as taken from it before anything was sent
    strange := array(
        select unnest(topics_) except select unnest(relaybox_internal.hop_topics(hop_name))
        order by 1
    );
    if strange <> '{}' then
        insert into relaybox_internal.backlog (hop, topics, lower, upper, seqs, state)
        select hop_name, strange, '1:1:', relaybox_internal.full_snapshot(),
            int8multirange(int8range(1, greatest(head.anchor_seq, 1), '[]')), 'unrouted'
        where head.anchor_seq > 0;
        insert into relaybox_internal.backlog (hop, topics, lower, seqs, state)
        values (
            hop_name, strange, '1:1:',
            int8multirange(int8range(head.anchor_seq + 1, 9223372036854775807)), 'unrouted'
        );
    end if;
    -- a topic that comes back is read from the backlog up to the frontier: nothing beyond the
    -- frontier may be given up
    until := case
        when head.retired_at is null then relaybox_internal.advance_frontier(hop_name)
        else pg_current_snapshot()
    end;
    -- excludes later rows, even if a reload gave them lower transaction numbers
    select int8multirange(int8range(1, q.last_value, '[]')) into written from relaybox.outbox_seq q;
    select coalesce(max(p.backlog_id), 0) into newest
    from relaybox_internal.backlog p where p.hop = hop_name;
    -- rows of transactions that are open now commit later: they stay unrouted
    insert into relaybox_internal.backlog (hop, topics, lower, seqs, state)
    select hop_name, array(select unnest(p.topics) intersect select unnest(topics_) order by 1),
        until, p.seqs, 'unrouted'
    from relaybox_internal.backlog p
    where p.hop = hop_name and p.upper is null and p.topics && topics_;
    insert into relaybox_internal.backlog (
        hop, topics, lower, upper, seqs, state, retired_by, retired_reason
    )
    select
        hop_name, array(select unnest(p.topics) intersect select unnest(topics_) order by 1),
        p.lower, coalesce(p.upper, until), p.seqs * written,
        'retired', recorded_by, reason
    from relaybox_internal.backlog p
    where p.hop = hop_name and p.backlog_id <= newest and p.state = 'unrouted'
        and p.topics && topics_ and p.seqs && written
    order by p.backlog_id;
    get diagnostics piece_count = row_count;
    delete from relaybox_internal.backlog p
    where p.hop = hop_name and p.backlog_id <= newest and p.state = 'unrouted'
        and p.topics <@ topics_;
    update relaybox_internal.backlog p
    set topics = array(select unnest(p.topics) except select unnest(topics_) order by 1)
    where p.hop = hop_name and p.backlog_id <= newest and p.state = 'unrouted'
        and p.topics && topics_;
    return piece_count;
end
$$;
