-- How the messages of a trial differ from those that the version before has sent for the same range:
-- a row for each pair, and for each message that only one has. Without the bodies: seqs in
-- relaybox.outbox and in derivation_trial_message. Equal are messages of one cause, topic and key with
-- equal headers (but derived_from) and payload; of the others those of one cause, topic and key are
-- pairs in their order: changed. Messages without a single cause are paired by topic and key. Of
-- messages with one id, which a replay sends again, the newest counts. compared_from: the first
-- stream position of which the outbox has all messages.
create or replace function relaybox_internal.compare_derivation_trial(
    trial_id_ integer, compared_from bigint
)
returns table (
    difference text, topic text, key text, stream_position bigint, old_seq bigint, new_seq bigint
)
language sql volatile
-- the sides are joined by hashes, whatever the planner expects: pairs of rows that are looked at one by
-- one are as many as the product of both sides
set enable_nestloop = off
as $$
with tried as (
    select m.seq, m.topic, m.key, m.headers, m.payload, m.payload_bytes, c.cause
    from relaybox_internal.derivation_trial_message m
    cross join lateral (
        select
            (m.headers -> 'derived_from' ->> 'stream_position')::bigint as cause,
            (m.headers -> 'derived_from' -> 'stream_positions' ->> 1)::bigint as last_cause
    ) c
    where m.trial_id = trial_id_ and coalesce(c.last_cause, c.cause) >= compared_from
),

rows as (
    select
        r.is_new, r.seq, r.topic, r.key, r.cause,
        jsonb_build_array(r.topic, r.key, r.cause)::text as identity,
        sha256(
            sha256(convert_to((r.headers - 'derived_from')::text, 'UTF8'))
            || convert_to((r.payload is null)::text, 'UTF8')
            || coalesce(convert_to(r.payload, 'UTF8'), r.payload_bytes)
        ) as digest
    from (
        select false as is_new, s.*
        from relaybox_internal.sent_in_range_of_trial(trial_id_, compared_from) s
        union all
        select true, tried.* from tried
    ) r
),

numbered as (
    select r.*, row_number() over (partition by r.is_new, r.identity, r.digest order by r.seq) as number
    from rows r
),

equal as (
    select o.seq as old_seq, n.seq as new_seq
    from numbered o
    join numbered n
        on n.identity = o.identity and n.digest = o.digest and n.number = o.number
    where n.is_new and not o.is_new
),

others as (
    select r.*, row_number() over (partition by r.is_new, r.identity order by r.seq) as place
    from rows r
    left join equal e on e.old_seq = r.seq and not r.is_new
    left join equal f on f.new_seq = r.seq and r.is_new
    where e.old_seq is null and f.new_seq is null
)

select 'equal', r.topic, r.key, r.cause, e.old_seq, e.new_seq
from equal e
join rows r on r.seq = e.old_seq and not r.is_new
union all
select
    case when n.seq is null then 'only_old' when o.seq is null then 'only_new' else 'changed' end,
    coalesce(o.topic, n.topic), coalesce(o.key, n.key), coalesce(o.cause, n.cause), o.seq, n.seq
from (select * from others where not is_new) o
full join (select * from others where is_new) n on n.identity = o.identity and n.place = o.place
$$;
