-- The first place to read for "earliest", "latest", a place, or a time (of delivery in this store, which never goes back).
-- Raises RB034 for a place that is no longer kept, or a time of which a message is not, RB038 for what is detached, RB036 for no start, or a
-- time in the future: behind the store's clock, and behind the newest recorded delivery, which may be ahead of the clock.
create or replace function relaybox.start_place(stream_id_ integer, start text) returns bigint
language plpgsql stable
as $$
declare
    known relaybox.stream;
    since timestamptz;
    first bigint;
begin
    perform relaybox.require_length('the start', start, 100);
    select * into known from relaybox.stream s where s.stream_id = stream_id_;
    case
        when start is null then
            raise exception using errcode = 'RB036', message = format('stream %s: the start is null', known.stream),
                hint = 'Give ''earliest'', ''latest'', a place such as 1200, or a time such as 2026-07-01 12:00+00.';
        when start = 'earliest' then return known.first_kept_place;
        when start = 'latest' then return known.last_place + 1;
        when start ~ '^0{1,18}$' then
            raise exception using errcode = 'RB036', message = format('stream %s has no place %s: places begin at 1', known.stream, start),
                hint = 'Start at ''earliest'' for all that is kept.';
        when start ~ '^[0-9]{1,18}$' then
            perform relaybox.refuse_detached(known, start::bigint, format('stream %s', known.stream));
            if start::bigint < known.first_kept_place then
                raise exception using errcode = 'RB034',
                    message = format('stream %s: place %s is no longer kept; the first one is %s', known.stream, start, known.first_kept_place),
                    hint = 'Start at ''earliest'', or at a kept place.';
            end if;
            if start::bigint > known.last_place + 1 then
                raise exception using errcode = 'RB036',
                    message = format('stream %s: there is no place %s yet; the newest is %s', known.stream, start, known.last_place),
                    hint = 'Start at ''latest'' for what will come.';
            end if;
            return start::bigint;
        else
            begin
                since := start::timestamptz;
            exception when data_exception then
                raise exception using errcode = 'RB036',
                    message = format('%L is no start: give ''earliest'', ''latest'', a place such as 1200, or a time such as 2026-07-01 12:00+00', start);
            end;
            if since > clock_timestamp() and since > relaybox.delivery_time(stream_id_) then
                raise exception using errcode = 'RB036',
                    message = format(
                        'stream %s: %s is in the future, the clock of this store says %s', known.stream, start, clock_timestamp()
                    ),
                    hint = 'For what will come, start at ''latest''. An interval is replayed when it is over.';
            end if;
            select 1 + coalesce(max(greatest(before.last_place, case when l.compacted_decided_at < since then l.compacted_place end)), 0) into first
            from relaybox.stream_log l
            left join lateral (
                select k.last_place from relaybox.decision k
                where k.hop_id = l.hop_id and k.decided_at < since
                order by k.decided_at desc, k.last_place desc
                limit 1
            ) before on true
            where l.stream_id = stream_id_;
            select least(first, 1 + (
                select r.after_place from relaybox.late_delivery r
                where r.stream_id = stream_id_ and r.delivered_at >= since
                order by r.delivered_at, r.after_place
                limit 1
            )) into first;
            if first < known.first_kept_place then
                perform relaybox.refuse_detached(known, first, format('stream %s, delivered since %s', known.stream, start));
                raise exception using errcode = 'RB034',
                    message = format(
                        'stream %s: of what was delivered since %s, the messages before place %s are no longer kept',
                        known.stream, start, known.first_kept_place
                    ),
                    hint = format('Start at ''earliest'' or at place %s for what is kept, or at a later time.', known.first_kept_place);
            end if;
            return first;
    end case;
end
$$;
