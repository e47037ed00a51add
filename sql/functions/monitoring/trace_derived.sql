-- What was derived from a stream position: for each attempt that published, the ids of the messages
-- that it caused, at most 20 that the outbox still has, and how many messages the attempt sent in all.
-- With the owner's rights, since it reads one header of messages, which no viewer may. The ids of an
-- attempt are planned with its seqs, so that only their segments are looked at.
create or replace function relaybox_internal.trace_derived(
    stream_name text, stream_position_ bigint
)
returns table (
    route text, version integer, attempt bigint, derived_at timestamptz, derived_count bigint,
    message_ids text[]
)
language plpgsql stable security definer
set search_path = pg_catalog, relaybox, pg_temp
set row_security = off
set plan_cache_mode = force_custom_plan
as $$
declare
    published record;
begin
    for published in
        select d.route, d.version, a.attempt, a.ended_at, a.derived_count, a.first_seq, a.last_seq
        from relaybox_internal.derivation_attempt a
        join relaybox_internal.derivation d on d.derivation_id = a.derivation_id
        join relaybox_internal.subscription u on u.subscription_id = d.subscription_id
        join relaybox_internal.stream s on s.stream_id = u.stream_id
        where a.state = 'published' and a.stream_positions @> stream_position_
            and s.stream = stream_name
        order by a.ended_at
    loop
        route := published.route;
        version := published.version;
        attempt := published.attempt;
        derived_at := published.ended_at;
        derived_count := published.derived_count;
        message_ids := array(
            select o.message_id::text from relaybox.outbox o
            where o.seq between published.first_seq and published.last_seq
                -- of the transaction of the attempt: others insert in between
                and o.xid = coalesce(
                    (select f.xid from relaybox.outbox f where f.seq = published.first_seq), o.xid
                )
                and o.headers -> 'derived_from' ->> 'stream_position' = stream_position_::text
                and o.headers -> 'derived_from' ->> 'stream' = stream_name
                and o.headers -> 'derived_from' ->> 'version' = published.version::text
            order by o.seq
            limit 20
        );
        return next;
    end loop;
end
$$;
