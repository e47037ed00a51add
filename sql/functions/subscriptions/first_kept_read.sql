-- The first row that is still here of what a hop reads: a seq of the outbox, or a position of the
-- log that it reads. Null: there is no such hop.
create or replace function relaybox_internal.first_kept_read(hop_name text) returns bigint
language sql stable
as $$
    select coalesce(i.first_kept_position, s.first_kept_seq)
    from relaybox_internal.hop_out h
    cross join relaybox_internal.store s
    left join relaybox_internal.hop_in i on i.log_id = h.reads_log
    where h.hop = hop_name
$$;
