-- pre: adds only
-- What was applied to this store, and what the store is.

create table relaybox.migration (
    number integer primary key,
    name text not null,
    applied_at timestamptz not null default clock_timestamp()
);

create table relaybox.store (
    only_row boolean primary key default true,
    store text not null,
    segment_rows bigint not null,
    functions_digest text,
    initialised_at timestamptz not null default clock_timestamp(),
    constraint store_has_one_row check (only_row),
    constraint segment_rows_positive check (segment_rows > 0)
);
