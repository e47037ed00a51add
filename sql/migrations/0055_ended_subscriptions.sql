-- pre: adds indexes
-- Subscriptions that ended stay, for their dead letters and for who acted on them. With 63,000 of them each read of
-- relaybox.subscriptions by a bound role took 0.4 s.

create index subscription_of_name on relaybox_internal.subscription (subscription);
create index subscription_second_cursors
on relaybox_internal.subscription (replay_of) where replay_of is not null;
