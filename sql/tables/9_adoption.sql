-- Outbox tables of applications that are adopted: what is inserted into them is sent.

create table relaybox_internal.adopted_table (
    adoption_id integer generated always as identity primary key,
    table_name text not null,
    mapping jsonb not null,
    on_unmapped text not null,
    state text not null,
    template integer not null,
    backlog_count bigint,
    adopted_at timestamptz not null default clock_timestamp(),
    adopted_by text not null default session_user,
    constraint adopted_table_once unique (table_name),
    constraint on_unmapped_is_known check (on_unmapped in ('fail', 'set_aside')),
    constraint adopted_table_state_is_known check (state in ('backlog', 'sending'))
);
comment on table relaybox_internal.adopted_table is
'Outbox tables of applications. A trigger sends what is inserted into them. `relaybox adopt` writes '
'it, `relaybox unadopt` removes it.';
comment on column relaybox_internal.adopted_table.table_name is
'SCHEMA.TABLE when it was adopted. The trigger stays with a table that is renamed.';
comment on column relaybox_internal.adopted_table.mapping is
'Which column is which part of a message.';
comment on column relaybox_internal.adopted_table.on_unmapped is
'For a row that can''t be a message: fail, or set_aside.';
comment on column relaybox_internal.adopted_table.state is
'backlog: rows of before the adoption are being moved, and later ones wait behind them. sending: '
'the trigger writes into the outbox.';
comment on column relaybox_internal.adopted_table.template is
'Of the functions of the table: an init makes older ones anew.';
comment on column relaybox_internal.adopted_table.backlog_count is
'How many rows of before the adoption were taken. Null: none were asked for.';

create table relaybox_internal.adopted_row (
    adoption_id integer not null,
    row_number bigint generated always as identity,
    message_id uuid not null,
    topic text not null,
    sender text not null,
    key text,
    headers jsonb,
    payload text,
    payload_bytes bytea,
    constraint adopted_row_pkey primary key (adoption_id, row_number)
);
comment on table relaybox_internal.adopted_row is
'Messages of an adopted table that wait for the end of its backlog, in this order.';

create table relaybox_internal.unmapped_row (
    unmapped_id bigint generated always as identity primary key,
    adoption_id integer not null,
    problem text not null,
    content text not null,
    set_aside_at timestamptz not null default clock_timestamp(),
    is_message boolean not null default false
);
comment on table relaybox_internal.unmapped_row is
'Rows of adopted tables that can''t be messages, with on_unmapped: set_aside. `relaybox adopt '
'--send-unmapped` tries them again.';
comment on column relaybox_internal.unmapped_row.content is
'The whole row as JSON; if is_message: the message as JSON.';
comment on column relaybox_internal.unmapped_row.is_message is
'Whether the row was a message already, of a backlog, and the outbox has refused it.';

-- Serves "which rows of this table are set aside".
create index unmapped_row_adoption on relaybox_internal.unmapped_row (adoption_id);
