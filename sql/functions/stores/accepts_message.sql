-- The rules for a row of the outbox, as one constraint: Postgres reads each constraint anew for each
-- insert, 2 us of CPU each; this one costs 6 to 9 us where fifteen cost 30. Returns true, or raises
-- 23514 with the name of the broken rule as the constraint. Each operator and function is
-- pg_catalog's: the session of a producer chooses its search_path. A column that is null breaks no
-- rule, as in a constraint.
create or replace function relaybox_internal.accepts_message(
    topic text, sender text, key text, index bigint, epoch integer, headers jsonb, payload text,
    payload_bytes bytea, clock jsonb
)
returns boolean
language plpgsql immutable parallel safe
as $$
declare
    broken text;
begin
    if (
        topic operator(pg_catalog.~) '^[a-z0-9_.-]{1,48}$'
        and sender operator(pg_catalog.~) '^[A-Za-z0-9_.:-]{1,48}$'
        and (key is null or pg_catalog.length(key) operator(pg_catalog.<=) 200)
        and (
            index is null or index operator(pg_catalog.>=) 1
            and index operator(pg_catalog.<) 9223372036854775807
        )
        and epoch operator(pg_catalog.>=) 1
        and (payload is null) operator(pg_catalog.<>) (payload_bytes is null)
        and (payload is null or pg_catalog.octet_length(payload) operator(pg_catalog.<=) 16777216)
        and (
            payload_bytes is null
            or pg_catalog.octet_length(payload_bytes) operator(pg_catalog.<=) 16777216
        )
        and headers is null and clock is null
    ) then
        return true;
    end if;
    broken := case
        when not topic operator(pg_catalog.~) '^[a-z0-9_.-]{1,48}$' then 'topic_is_a_plain_name'
        when not sender operator(pg_catalog.~) '^[A-Za-z0-9_.:-]{1,48}$'
            then 'sender_is_a_plain_name'
        when pg_catalog.length(key) operator(pg_catalog.>) 200 then 'key_at_most_200_characters'
        when index operator(pg_catalog.<) 1 or epoch operator(pg_catalog.<) 1
            then 'index_and_epoch_positive'
        when index operator(pg_catalog.>=) 9223372036854775807 then 'index_below_the_largest'
        when (payload is null) operator(pg_catalog.=) (payload_bytes is null)
            then 'message_has_exactly_one_payload'
        when pg_catalog.octet_length(payload) operator(pg_catalog.>) 16777216
            or pg_catalog.octet_length(payload_bytes) operator(pg_catalog.>) 16777216
            then 'payload_at_most_16_mib'
        when pg_catalog.jsonb_typeof(headers) operator(pg_catalog.<>) 'object'
            then 'headers_are_an_object'
        when pg_catalog.octet_length(headers::pg_catalog.text) operator(pg_catalog.>) 65536
            then 'headers_at_most_64_kib'
        when pg_catalog.jsonb_typeof(
            headers operator(pg_catalog.->) 'relaybox-expires-at'
        ) operator(pg_catalog.<>) 'number'
            or pg_catalog.jsonb_path_exists(
                headers, '$."relaybox-expires-at" ? (@ < 0 || @ > 253402300799)'
            ) then 'expires_at_is_seconds_since_1970'
        when pg_catalog.jsonb_typeof(
            headers operator(pg_catalog.->) 'relaybox-deliver-after'
        ) operator(pg_catalog.<>) 'number'
            or pg_catalog.jsonb_path_exists(
                headers, '$."relaybox-deliver-after" ? (@ < 0 || @ > 253402300799)'
            ) then 'deliver_after_is_seconds_since_1970'
        when pg_catalog.jsonb_path_exists(
            headers, '$ ? (@."relaybox-deliver-after" >= @."relaybox-expires-at")'
        ) then 'deliver_after_is_before_expires_at'
        when pg_catalog.jsonb_path_exists(
            headers, 'strict $.**{64} ? (@.type() == "object" || @.type() == "array")'
        ) then 'headers_nest_at_most_64_levels'
        when pg_catalog.jsonb_path_exists(headers, 'strict $.** ? (@.abs() >= 1e308)')
            then 'numbers_in_headers_below_1e308'
        when pg_catalog.jsonb_typeof(clock) operator(pg_catalog.<>) 'object'
            or pg_catalog.octet_length(clock::pg_catalog.text) operator(pg_catalog.>) 65536
            then 'clock_is_an_object'
        when pg_catalog.jsonb_array_length(
            pg_catalog.jsonb_path_query_array(clock, '$.keyvalue()', '{}', true)
        ) operator(pg_catalog.>) 1000 then 'clock_names_at_most_1000_senders'
        when pg_catalog.jsonb_path_exists(
            clock, 'strict $.**{64} ? (@.type() == "object" || @.type() == "array")'
        ) then 'clock_nests_at_most_64_levels'
        when pg_catalog.jsonb_path_exists(clock, 'strict $.** ? (@.abs() >= 1e308)')
            then 'numbers_in_clock_below_1e308'
    end;
    if broken is null then
        return true;
    end if;
    raise exception using errcode = '23514', schema = 'relaybox', table = 'outbox',
        constraint = broken,
        message = pg_catalog.format(
            'new row for relation "outbox" violates check constraint "%s"', broken
        ),
        hint = case
            when broken operator(pg_catalog.=) 'headers_are_an_object'
                then pg_catalog.format('headers is a JSON %s. ', pg_catalog.jsonb_typeof(headers))
            when broken operator(pg_catalog.=) 'clock_is_an_object'
                then pg_catalog.format('clock is a JSON %s. ', pg_catalog.jsonb_typeof(clock))
            else ''
        end operator(pg_catalog.||) case
            when broken operator(pg_catalog.=) 'headers_are_an_object'
                and pg_catalog.jsonb_typeof(headers) operator(pg_catalog.=) 'null'
                or broken operator(pg_catalog.=) 'clock_is_an_object'
                and pg_catalog.jsonb_typeof(clock) operator(pg_catalog.=) 'null'
                then 'Leave the column out, or give SQL null: in SQLAlchemy declare the column as '
                    'JSONB(none_as_null=True).'
            when broken operator(pg_catalog.=) 'message_has_exactly_one_payload'
                then 'Give one of payload (text) and payload_bytes (bytea), and leave the other out.'
            else e'The rules of each column: \\d+ relaybox.outbox in psql.'
        end;
end
$$;

comment on function relaybox_internal.accepts_message(
    text, text, text, bigint, integer, jsonb, text, bytea, jsonb
) is
'The rules for a message of the outbox: a check constraint calls it for each row that is inserted.
`topic`, `sender`, `key`, `index`, `epoch`, `headers`, `payload`, `payload_bytes`, `clock`: the columns
    of the row.
Returns true.
Errors: 23514 with the name of the rule that the row breaks as its constraint.';
