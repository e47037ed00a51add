-- pre: adds only
-- Source ledger, for people: who drove each attempt at a batch, and as which Spark application. Nothing of the protocol reads it.
create table relaybox.attempt (
    hop text not null,
    batch bigint not null,
    attempt bigint not null,
    recorded_by text not null,
    application text,
    began_at timestamptz not null default clock_timestamp(),
    constraint attempt_pkey primary key (hop, batch, attempt)
);
