-- pre: adds only
-- What a route with `integrity: checksum` wrote down of each slice when it was planned, before anything was copied.
alter table relaybox.batch add column digests text[];
alter table relaybox.batch add constraint one_digest_per_slice check (cardinality(digests) = jsonb_array_length(slices));
