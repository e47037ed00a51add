-- Returns how far this store's log is settled for a hop that reads it: the last upstream position
-- of the newest settled batch. Every message up to there is settled. 0: nothing is. Null: the hop
-- does not leave this store.
create or replace function relaybox_internal.settled_reading(
    hop_name text, out through_position bigint, out happened_at timestamptz
)
language sql stable
as $$
    select coalesce(b.reads_through, 0), c.happened_at
    from relaybox_internal.hop_out h
    left join lateral relaybox_internal.newest_confirmation(h.hop, 'settled') c on true
    left join relaybox_internal.batch b on b.hop = h.hop and b.last_position = c.through_position
    where h.hop = hop_name
$$;
