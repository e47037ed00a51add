-- pre: adds only
-- Which lists of topics a hop's batches had is asked at each status. Of a list the index has a number: a list has no greatest length, an
-- entry of an index has. `relaybox.hop_topics` goes from number to number.
create index batch_topics on relaybox.batch (hop, hash_array_extended(topics, 0::bigint));
