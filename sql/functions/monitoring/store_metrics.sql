-- The metrics of a store, which a monitoring system asks for every few seconds: one row for each
-- metric and set of labels. plugins/relaybox/monitoring/metrics.py explains the names. An age is
-- the time for which a watermark has not moved although messages lie beyond it, else 0.
create or replace function relaybox_internal.store_metrics()
returns table (metric text, labels jsonb, value double precision)
language sql stable
as $$
    select m.* from relaybox_internal.hop_metrics() m
    union all
    select m.* from relaybox_internal.stream_metrics() m
    union all
    select m.* from relaybox_internal.subscription_metrics() m
    union all
    select m.* from relaybox_internal.retention_metrics() m
    union all
    select m.* from relaybox_internal.server_metrics() m
$$;
