-- pre: adds a column
-- A streaming query of Spark may have a subscription, which no other query and no consumer uses.

alter table relaybox_internal.subscription add column query uuid;
comment on column relaybox_internal.subscription.query is
'The streaming query of Spark that reads by it, as its checkpoint names it. Null: a consumer does.';
