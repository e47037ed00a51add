-- pre: adds tables
-- A store may check messages by the JSON Schemas of their topics.

create table relaybox_internal.checked_topic (
    topic text primary key,
    outbox text not null,
    newest_version integer not null,
    constraint outbox_check_is_known check (outbox in ('none', 'refuse')),
    constraint newest_version_positive check (newest_version >= 1)
);
comment on table relaybox_internal.checked_topic is
'Topics whose messages this store checks by their JSON Schemas: schema_checks of relaybox.yaml. Init '
'writes it.';
comment on column relaybox_internal.checked_topic.outbox is
'refuse: the outbox refuses a message that does not conform.';
comment on column relaybox_internal.checked_topic.newest_version is
'Versions are 1 to this one.';

create table relaybox_internal.check_function (
    function_name text primary key,
    text_digest text not null,
    body_digest text not null,
    made_at timestamptz not null default clock_timestamp()
);
comment on table relaybox_internal.check_function is
'The functions of relaybox_internal that init made of JSON Schemas.';
comment on column relaybox_internal.check_function.text_digest is
'Of the statements that made it.';
comment on column relaybox_internal.check_function.body_digest is
'Of what Postgres had of it then: another one was put there by hand.';

-- The trigger of an adopted table asks it. Not a file of init: the init of an older version would drop
-- the function, and triggers need it.
create function relaybox_internal.outbox_refusal(
    topic text, headers jsonb, payload text, payload_bytes bytea
)
returns text
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    if not exists (
        select from relaybox_internal.checked_topic t
        where t.topic = outbox_refusal.topic and t.outbox = 'refuse'
    ) then
        return null;
    end if;
    -- made by init together with the row of the topic
    return relaybox_internal.payload_problem(topic, headers, payload, payload_bytes);
end
$$;
comment on function relaybox_internal.outbox_refusal(text, jsonb, text, bytea) is
'Why the outbox refuses a message by the schema of its topic, as a text. Null: it does not.';
revoke all on function relaybox_internal.outbox_refusal(text, jsonb, text, bytea) from public;
