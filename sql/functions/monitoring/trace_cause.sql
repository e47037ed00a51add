-- What a message of the outbox was derived from: stream positions of a stream of this store, the only
-- message if it has a single cause, and the attempt that sent it. No row: an application sent it.
-- With the owner's rights, since it reads one header of the message, which no viewer may. Planned with
-- the seq, and the first message of the attempt and the cause are looked up by their own functions, so
-- that only their segments are looked at.
create or replace function relaybox_internal.trace_cause(seq_ bigint)
returns table (
    stream text, first_stream_position bigint, last_stream_position bigint, message_id uuid,
    version integer, attempt bigint
)
language plpgsql stable security definer
set search_path = pg_catalog, relaybox, pg_temp
set row_security = off
set plan_cache_mode = force_custom_plan
as $$
declare
    sent record;
    cause_stream_position bigint;
begin
    select o.xid, o.headers -> 'derived_from' as derived_from into sent
    from relaybox.outbox o where o.seq = seq_;
    if sent.derived_from is null then
        return; -- most messages: nothing else is looked at
    end if;
    if sent.derived_from ->> 'stream_position' ~ '^[0-9]{1,18}$' then
        cause_stream_position := (sent.derived_from ->> 'stream_position')::bigint;
    end if;
    return query
    select
        s.stream, coalesce(cause_stream_position, lower(a.stream_positions)),
        coalesce(cause_stream_position, upper(a.stream_positions) - 1), (
            select l.message_id
            from relaybox_internal.log_position_at(s.stream_id, cause_stream_position) p
            cross join lateral relaybox_internal.log_row(p.log_id, p.log_position) l
        ), d.version, a.attempt
    from relaybox_internal.stream s
    join relaybox_internal.subscription u on u.stream_id = s.stream_id
    join relaybox_internal.derivation d on d.subscription_id = u.subscription_id
        and d.version::text = sent.derived_from ->> 'version'
    cross join lateral (
        select n.* from relaybox_internal.derivation_attempt n
        where n.derivation_id = d.derivation_id and n.first_seq <= seq_
        order by n.first_seq desc
        limit 1
    ) a
    where s.stream = sent.derived_from ->> 'stream' and a.last_seq >= seq_
        -- of the transaction of the attempt: others insert in between
        and sent.xid
        = coalesce((select f.xid from relaybox_internal.sent_row(a.first_seq) f), sent.xid)
        and (cause_stream_position is null or a.stream_positions @> cause_stream_position);
end
$$;
