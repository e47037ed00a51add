-- post: a column gets another name
-- What `relaybox init` made of the files in sql/functions and sql/views: it drops nothing else.

create table relaybox.installed_object (
    identity text primary key,
    kind text not null,
    name text not null,
    digest text not null,
    installed_at timestamptz not null default clock_timestamp(),
    constraint kind_of_object_is_known check (kind in ('function', 'view'))
);

comment on table relaybox.installed_object is 'the functions and views of this schema that are Relaybox''s; any other belongs to somebody else';
comment on column relaybox.installed_object.digest is 'of the file that made it: a file that did not change is not applied again';

alter table relaybox.store rename column functions_digest to grants_digest;
