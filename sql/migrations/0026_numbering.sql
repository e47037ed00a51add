-- pre: adds only
-- Whether the outbox was loaded from a dump: then its rows carry transaction numbers of another cluster, or of another time of this one.

create table relaybox.numbering (
    only_row boolean primary key default true,
    numbering integer not null default 1,
    xid xid8 not null default pg_current_xact_id(),
    constraint numbering_has_one_row check (only_row)
);
insert into relaybox.numbering default values;
comment on table relaybox.numbering is 'one row, written by the transaction that it names: after a dump and reload another one has written it';
comment on column relaybox.numbering.numbering is 'counts the reloads that reanchor or init found';

-- Of the last batch whose ledger rows were removed: two stores had the same one only if its plan was the same.
alter table relaybox.hop_out add column compacted_plan_id uuid;
alter table relaybox.hop_in add column compacted_plan_id uuid;

alter table relaybox.hop_out add column numbering integer not null default 1;
comment on column relaybox.hop_out.numbering is
'the one in which lower and the pairs above anchor_seq are; another one than the store''s: the hop is to be reanchored';
