-- The store itself: which schema it has, what it is called, and in which cluster it was written.

comment on schema relaybox is
'What producers, consumers and operators use of Relaybox. Functions: \df+ relaybox.*, tables and '
'views: \d+ relaybox.*';
comment on schema relaybox_internal is
'What only Relaybox itself uses. Names and columns change from version to version.';

create table relaybox.migration (
    number integer primary key,
    name text not null,
    applied_at timestamptz not null default clock_timestamp(),
    phase text not null default 'post',
    constraint phase_is_known check (phase in ('pre', 'post'))
);
comment on table relaybox.migration is
'The migrations of this store, in the order of their numbers. The highest number is the version '
'of its schema.';
comment on column relaybox.migration.number is
'Number of the migration. Of a store that was made new also those that it did not need.';
comment on column relaybox.migration.name is 'Its name; tables: the tables of a new store have it.';
comment on column relaybox.migration.applied_at is 'When init applied it.';
comment on column relaybox.migration.phase is
'pre: code of the previous version can run beside it and after it; post: that code must have '
'ended.';

create table relaybox_internal.store (
    only_row boolean primary key default true,
    store text not null,
    segment_rows bigint not null,
    grants_digest text,
    initialised_at timestamptz not null default clock_timestamp(),
    first_kept_seq bigint not null default 1,
    anchor_seq bigint not null default 0,
    system_identifier bigint,
    timeline integer,
    subscriptions_per_role integer not null default 100,
    lanes_per_role integer not null default 1000,
    topics_per_role integer not null default 100,
    durability text not null default 'server',
    durability_reason text,
    durability_said_by text,
    durability_said_at timestamptz,
    store_id uuid not null default gen_random_uuid(),
    bind_subscriptions boolean not null default false,
    bind_topics boolean not null default false,
    require_approval boolean not null default false,
    functions_version text,
    functions_order integer[],
    constraint store_has_one_row check (only_row),
    constraint segment_rows_positive check (segment_rows > 0),
    constraint first_kept_seq_positive check (first_kept_seq >= 1),
    constraint quotas_not_negative check (subscriptions_per_role >= 0 and lanes_per_role >= 0),
    constraint topics_per_role_not_negative check (topics_per_role >= 0),
    constraint durability_is_known check (durability in ('server', 'provider')),
    constraint provider_has_a_reason check (durability = 'server' or durability_reason is not null)
);
comment on table relaybox_internal.store is
'One row: the name of this store, its quotas, and the cluster whose transaction numbers its '
'outbox has.';
comment on column relaybox_internal.store.segment_rows is
'Rows of a segment of the outbox or of a log.';
comment on column relaybox_internal.store.grants_digest is
'Digest of the grants and comments that the last init applied.';
comment on column relaybox_internal.store.first_kept_seq is
'Retention dropped the segments of the outbox below this seq.';
comment on column relaybox_internal.store.anchor_seq is
'Rows up to this seq may have transaction numbers of another cluster. No transaction that wrote '
'them is open.';
comment on column relaybox_internal.store.durability is
'server: fsync and full_page_writes are on. provider: the provider of this database makes commits '
'durable by other means, as durability_reason says.';
comment on column relaybox_internal.store.durability_reason is
'Why provider was chosen, from relaybox.yaml; null for server.';
comment on column relaybox_internal.store.durability_said_by is
'The login whose init changed it last; null: it was never changed.';
comment on column relaybox_internal.store.durability_said_at is 'When.';
comment on column relaybox_internal.store.store_id is
'Made by the first init. A dump, a backup and a replica of this store have it too; another database '
'never has.';
comment on column relaybox_internal.store.bind_subscriptions is
'True: a role uses only subscriptions that it is bound to, as relaybox.yaml says.';
comment on column relaybox_internal.store.bind_topics is
'True: a role reads only messages of topics that it was granted, as relaybox.yaml says.';
comment on column relaybox_internal.store.require_approval is
'True: only drivers and the owner redrive, replay, or subscribe again at an earlier stream position, '
'as relaybox.yaml says.';
comment on column relaybox_internal.store.functions_version is
'The newest version of Relaybox whose init made functions and views here; of init --older: that '
'version.';
comment on column relaybox_internal.store.functions_order is
'The same version as numbers that sort as versions do: major, minor, patch, stage, number of the '
'stage.';
comment on column relaybox_internal.store.system_identifier is
'The cluster whose transaction numbers the rows above anchor_seq have.';

create table relaybox_internal.installed_object (
    identity text primary key,
    kind text not null,
    name text not null,
    digest text not null,
    installed_at timestamptz not null default clock_timestamp(),
    definition text,
    made_on integer,
    constraint kind_of_object_is_known check (kind in ('function', 'view'))
);
comment on table relaybox_internal.installed_object is
'The functions and views that init made. Init changes and drops no others: they belong to the '
'user.';
comment on column relaybox_internal.installed_object.digest is
'Digest of the file that made the object. Init does not apply a file again that has not changed.';
comment on column relaybox_internal.installed_object.definition is
'Digest of the object as Postgres had it when init had made it. Null: made before this column was '
'added.';
comment on column relaybox_internal.installed_object.made_on is
'The major version of Postgres then: each writes a view in its own way.';

create table relaybox_internal.numbering (
    only_row boolean primary key default true,
    numbering integer not null default 1,
    xid xid8 not null default pg_current_xact_id(),
    constraint numbering_has_one_row check (only_row)
);
insert into relaybox_internal.numbering default values;
comment on table relaybox_internal.numbering is
'One row, which names the transaction that wrote it. After a dump and reload another transaction '
'has written it.';
comment on column relaybox_internal.numbering.numbering is
'Number of reloads that reanchor or init found, plus 1.';

create table relaybox_internal.attestation (
    attested_at timestamptz primary key default clock_timestamp(),
    attested_by text not null,
    reason text not null,
    from_system_identifier bigint not null,
    from_timeline integer not null,
    system_identifier bigint not null,
    timeline integer not null
);
comment on table relaybox_internal.attestation is
'Who stated that another cluster, or another timeline, is this store without any loss.';

-- A database that holds nothing else is closed to logins without a grant, once: a right that its
-- owner gives back later stays. In other databases init lists the open rights and how to close
-- them.
do $$
begin
    if exists (
            select from pg_database d
            where d.datname = current_database() and d.datdba = quote_ident(current_user)::regrole
        )
        and not exists (
            select from pg_class c
            join pg_namespace n on n.oid = c.relnamespace
            where
                n.nspname not in (
                    'relaybox', 'relaybox_internal', 'pg_catalog', 'information_schema'
                )
                and n.nspname !~ '^pg_(toast|temp)'
        )
    then
        execute format('revoke connect, temporary on database %I from public', current_database());
    end if;
end
$$;
