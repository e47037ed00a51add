-- Whether a hop has planned a batch that is not confirmed, or has a piece of its backlog to read: it
-- has something to move, whatever the outbox has. Inlined.
create or replace function relaybox_internal.has_unfinished(hop_name text, newest_batch bigint)
returns boolean
language sql stable
as $$
    select
        newest_batch > coalesce((
            select c.through_batch
            from relaybox_internal.newest_confirmation(hop_name, 'received') c
        ), 0)
        or exists (
            select from relaybox_internal.backlog p where p.hop = hop_name and p.state = 'routed'
        )
$$;
