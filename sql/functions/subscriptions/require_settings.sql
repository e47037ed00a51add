-- Refuses settings of a subscription that make no sense, all of them at once: RB036.
create or replace function relaybox_internal.require_settings(
    name text, lanes integer, lane_by text, nack_limit integer, crash_limit integer, hold_sender boolean,
    retry_seconds integer, lease_seconds integer, delayed text
)
returns void
language plpgsql immutable
as $$
declare
    wrong text := concat_ws(
        '; ',
        case when name ~ '^[a-z0-9_.-]{1,60}$' is not true then format('the name %L must be 1 to 60 of a-z 0-9 _ . -', left(name, 70)) end,
        case
            when relaybox_internal.is_second_cursor_name(name)
                then format('the name %L is that of a second cursor: only a replay makes such a subscription', left(name, 70))
        end,
        case when (lanes between 1 and 64) is not true then format('lanes %s must be 1 to 64', coalesce(lanes::text, 'null')) end,
        case when (lane_by in ('sender', 'key')) is not true then format('lane_by %L must be sender or key', left(lane_by, 70)) end,
        case when (nack_limit >= 1) is not true then format('nack_limit %s must be 1 or more', coalesce(nack_limit::text, 'null')) end,
        case when (crash_limit >= 1) is not true then format('crash_limit %s must be 1 or more', coalesce(crash_limit::text, 'null')) end,
        case when hold_sender is null then 'hold_sender null must be true or false' end,
        case when (retry_seconds >= 0) is not true then format('retry_seconds %s must be 0 or more', coalesce(retry_seconds::text, 'null')) end,
        case when (lease_seconds >= 1) is not true then format('lease_seconds %s must be 1 or more', coalesce(lease_seconds::text, 'null')) end,
        case when (delayed in ('hold', 'pass', 'ignore')) is not true then format('delayed %L must be hold, pass or ignore', left(delayed, 70)) end,
        case
            when hold_sender and delayed = 'pass'
                then 'delayed ''pass'' gives later messages of a sender before its delayed one, and hold_sender true forbids that: choose hold'
        end
    );
begin
    if wrong <> '' then
        raise exception using errcode = 'RB036', message = format('the subscription can''t be made: %s', wrong),
            hint = 'See the table of functions in docs/consuming.md.';
    end if;
end
$$;
