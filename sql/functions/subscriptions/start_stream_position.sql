-- The first stream position to read for "earliest", "latest", a stream position, or a time (of delivery in this store, which never goes back).
-- Raises RB034 for a stream position that is no longer kept, or a time of which a message is not, RB038 for what is detached, RB036 for no
-- start, or a
-- time in the future: behind the store's clock, and behind the newest recorded delivery, which may be ahead of the clock.
create or replace function relaybox_internal.start_stream_position(stream_id_ integer, start text) returns bigint
language plpgsql stable
as $$
declare
    stream_ relaybox_internal.stream;
    since timestamptz;
    first bigint;
begin
    perform relaybox_internal.require_length('the start', start, 100);
    select * into stream_ from relaybox_internal.stream s where s.stream_id = stream_id_;
    case
        when start is null then
            raise exception using errcode = 'RB036', message = format('stream %s: the start is null', stream_.stream),
                hint = 'Give ''earliest'', ''latest'', a stream position such as 1200, or a time such as 2026-07-01 12:00+00.';
        when start = 'earliest' then return stream_.first_kept_stream_position;
        when start = 'latest' then return stream_.last_stream_position + 1;
        when start ~ '^0{1,18}$' then
            raise exception using errcode = 'RB036', message = format('stream %s has no stream position %s: stream positions begin at 1',
            stream_.stream, start),
                hint = 'Start at ''earliest'' for all that is kept.';
        when start ~ '^[0-9]{1,18}$' then
            perform relaybox_internal.refuse_detached(stream_, start::bigint, format('stream %s', stream_.stream));
            if start::bigint < stream_.first_kept_stream_position then
                raise exception using errcode = 'RB034',
                    message = format('stream %s: stream position %s is no longer kept; the first one is %s', stream_.stream, start,
                    stream_.first_kept_stream_position),
                    hint = 'Start at ''earliest'', or at a kept stream position.';
            end if;
            if start::bigint > stream_.last_stream_position + 1 then
                raise exception using errcode = 'RB036',
                    message = format('stream %s: there is no stream position %s yet; the newest is %s', stream_.stream, start,
                    stream_.last_stream_position),
                    hint = 'Start at ''latest'' for what will come.';
            end if;
            return start::bigint;
        else
            begin
                since := start::timestamptz;
            exception when data_exception then
                raise exception using errcode = 'RB036',
                    message = format('%L is no start: give ''earliest'', ''latest'', a stream position such as 1200, or a time such as ' ||
                        '2026-07-01 12:00+00', start);
            end;
            if since > clock_timestamp() and since > relaybox_internal.delivery_time(stream_id_) then
                raise exception using errcode = 'RB036',
                    message = format(
                        'stream %s: %s is in the future, the clock of this store says %s', stream_.stream, start, clock_timestamp()
                    ),
                    hint = 'For what will come, start at ''latest''. An interval is replayed when it is over.';
            end if;
            select 1 + coalesce(max(greatest(before.last_stream_position,
            case when l.compacted_decided_at < since then l.compacted_stream_position end)), 0) into first
            from relaybox_internal.stream_log l
            left join lateral (
                select k.last_stream_position from relaybox_internal.decision k
                where k.log_id = l.log_id and k.decided_at < since
                order by k.decided_at desc, k.last_stream_position desc
                limit 1
            ) before on true
            where l.stream_id = stream_id_;
            select least(first, 1 + (
                select r.after_stream_position from relaybox_internal.late_delivery r
                where r.stream_id = stream_id_ and r.delivered_at >= since
                order by r.delivered_at, r.after_stream_position
                limit 1
            )) into first;
            if first < stream_.first_kept_stream_position then
                perform relaybox_internal.refuse_detached(stream_, first, format('stream %s, delivered since %s', stream_.stream, start));
                raise exception using errcode = 'RB034',
                    message = format(
                        'stream %s: of what was delivered since %s, the messages before stream position %s are no longer kept',
                        stream_.stream, start, stream_.first_kept_stream_position
                    ),
                    hint = format('Start at ''earliest'' or at stream position %s for what is kept, or at a later time.',
                    stream_.first_kept_stream_position);
            end if;
            return first;
    end case;
end
$$;
