-- The first place to read for "earliest", "latest", a place, or a time (of delivery in this store).
-- Raises RB034 for a place that is no longer kept, RB038 for one that is detached, RB036 for what is none of these.
create or replace function relaybox.start_place(stream_id_ integer, start text) returns bigint
language plpgsql stable
as $$
declare
    known relaybox.stream;
    since timestamptz;
    first bigint;
begin
    select * into known from relaybox.stream s where s.stream_id = stream_id_;
    case
        when start = 'earliest' then return known.first_kept_place;
        when start = 'latest' then return known.last_place + 1;
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
            select 1 + coalesce(max(before.last_place), 0) into first
            from relaybox.stream_log l
            join lateral (
                select k.last_place from relaybox.decision k
                where k.hop_id = l.hop_id and k.decided_at < since
                order by k.decided_at desc
                limit 1
            ) before on true
            where l.stream_id = stream_id_;
            perform relaybox.refuse_detached(known, greatest(first, known.dropped_place + 1), format('stream %s', known.stream));
            return greatest(known.first_kept_place, first);
    end case;
end
$$;
