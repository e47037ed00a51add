-- Returns the declarations of an origin's senders that a snapshot of this store did not see yet
-- (null: all), and the snapshot to ask with next time. One statement: both are of one moment. A
-- repeated call may return a declaration twice and leaves none out.
create or replace function relaybox_internal.senders_since(
    origin_ text, seen pg_snapshot, out through pg_snapshot, out senders jsonb
)
language sql stable
as $$
    select
        pg_current_snapshot(),
        coalesce(jsonb_agg(jsonb_build_object(
            'sender', s.sender, 'epoch', s.epoch, 'kind', s.kind, 'declared_at', s.declared_at,
            'declared_by', s.declared_by
        ) order by s.sender, s.epoch), '[]')
    from relaybox_internal.sender s
    where s.origin = origin_
        and (
            seen is null or s.xid >= pg_snapshot_xmin(seen)
                and not pg_visible_in_snapshot(s.xid, seen)
        )
$$;
