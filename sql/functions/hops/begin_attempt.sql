-- Gives the calling driver the newest attempt number of a hop. The synchronous commit of this is
-- also the durable barrier before a resumed batch is read: after it, every row that the batch
-- covers is flushed. Caller holds the row through lock_hop() in the same transaction.
create or replace function relaybox_internal.begin_attempt(hop_name text) returns bigint
language sql volatile
as $$
    update relaybox_internal.hop_out
    set attempt = attempt + 1
    where hop = hop_name
    returning attempt
$$;
