-- pre: adds only
-- Hops that relaybox.yaml no longer has, and that nobody waits for any more.
alter table relaybox.hop_out
add column retired_at timestamptz,
add column retired_by text,
add column retired_reason text,
add column given_up pg_snapshot,
add constraint retired_by_somebody check ((retired_at is null) = (retired_by is null) and (retired_at is null) = (retired_reason is null));

comment on column relaybox.hop_out.given_up is 'a retired hop that read the outbox: what its topics had committed by then waits for nobody';
