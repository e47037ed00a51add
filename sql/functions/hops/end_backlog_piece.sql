-- Removes a piece of a hop's backlog that is read to the end. Caller holds the hop through
-- lock_hop(). As durable as a batch.
create or replace function relaybox_internal.end_backlog_piece(hop_name text, backlog_id_ bigint)
returns void
language sql volatile
as $$
    delete from relaybox_internal.backlog where hop = hop_name and backlog_id = backlog_id_
$$;
