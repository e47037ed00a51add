-- pre: adds only
-- How many subscriptions and lanes a database role may have in this store. Roles are the database's, so their quotas stand here.

alter table relaybox.store add column subscriptions_per_role integer not null default 100;
alter table relaybox.store add column lanes_per_role integer not null default 1000;
alter table relaybox.store add constraint quotas_not_negative check (subscriptions_per_role >= 0 and lanes_per_role >= 0);

-- One row per role that has subscribed or has a quota of its own; locked by whoever subscribes, so that roles never exceed theirs.
create table relaybox.consumer_quota (
    role_name name primary key,
    subscriptions integer,
    lanes integer,
    checked_at timestamptz not null default clock_timestamp(),
    constraint quota_not_negative check (subscriptions >= 0 and lanes >= 0)
);

comment on column relaybox.consumer_quota.subscriptions is 'null: as relaybox.store says for every role';
comment on column relaybox.consumer_quota.lanes is 'null: as relaybox.store says for every role';

-- Serves "what has this role".
create index subscription_of_role on relaybox.subscription (subscribed_by) include (lanes) where ended_at is null;
