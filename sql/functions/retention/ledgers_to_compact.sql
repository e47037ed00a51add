-- The hops that leave this store (hop), and the logs (log_id), of whose ledgers compact_hop_ledgers() and
-- compact_log_ledgers() would remove something. Of all in one statement: most have nothing to remove.
create or replace function relaybox_internal.ledgers_to_compact()
returns table (hop text, log_id integer)
language sql stable
as $$
    select h.hop, null::integer
    from relaybox_internal.hop_out h
    where exists (
        select from relaybox_internal.batch b
        where b.hop = h.hop and b.batch < relaybox_internal.first_needed_batch(h)
    )
    union all
    select null, i.log_id
    from relaybox_internal.hop_in i
    join relaybox_internal.stream_log l on l.log_id = i.log_id
    cross join lateral (
        -- a log is dense: if the first batch that is left stays, all do
        select a.batch, a.last_position
        from relaybox_internal.arrival a
        where a.log_id = i.log_id order by a.batch limit 1
    ) oldest
    where oldest.batch < i.published_batch and oldest.batch < l.decided_batch
        and oldest.last_position < relaybox_internal.log_kept_from(i.log_id)
    order by 1, 2
$$;
