-- What a message of the outbox was derived from: stream positions of a stream of this store, the only
-- message if it has a single cause, and the attempt that sent it. No row: an application sent it.
-- With the owner's rights, since it reads one header of the message, which no viewer may.
create or replace function relaybox_internal.trace_cause(seq_ bigint)
returns table (
    stream text, first_stream_position bigint, last_stream_position bigint, message_id uuid,
    version integer, attempt bigint
)
language sql stable security definer
set search_path = pg_catalog, relaybox, pg_temp
set row_security = off
as $$
    select
        s.stream, coalesce(told.stream_position, lower(a.stream_positions)),
        coalesce(told.stream_position, upper(a.stream_positions) - 1), (
            select l.message_id
            from relaybox_internal.log_position_at(s.stream_id, told.stream_position) p
            join relaybox_internal.log l on l.log_id = p.log_id and l.log_position = p.log_position
        ), d.version, a.attempt
    from relaybox.outbox o
    cross join lateral (
        select
            o.headers -> 'derived_from' ->> 'stream' as stream,
            o.headers -> 'derived_from' ->> 'version' as version,
            case
                when o.headers -> 'derived_from' ->> 'stream_position' ~ '^[0-9]{1,18}$'
                    then (o.headers -> 'derived_from' ->> 'stream_position')::bigint
            end as stream_position
    ) told
    join relaybox_internal.stream s on s.stream = told.stream
    join relaybox_internal.subscription u on u.stream_id = s.stream_id
    join relaybox_internal.derivation d
        on d.subscription_id = u.subscription_id and d.version::text = told.version
    cross join lateral (
        select n.* from relaybox_internal.derivation_attempt n
        where n.derivation_id = d.derivation_id and n.first_seq <= o.seq
        order by n.first_seq desc
        limit 1
    ) a
    where o.seq = seq_ and a.last_seq >= o.seq
        -- of the transaction of the attempt: others insert in between
        and o.xid = coalesce((select f.xid from relaybox.outbox f where f.seq = a.first_seq), o.xid)
        and (told.stream_position is null or a.stream_positions @> told.stream_position)
$$;
