-- The lowest seq of an outbox segment whose transaction a snapshot did not see as ended; null:
-- there is none. Under a lock that keeps writers out this is a row that committed after the
-- snapshot.
create or replace function relaybox_internal.committed_since(segment regclass, checked pg_snapshot)
returns bigint
language plpgsql stable
as $$
declare
    seq_ bigint;
begin
    execute format(
        'select min(o.seq) from %s o '
        'where (o.xid >= pg_snapshot_xmax($1) or o.xid = any(array(select pg_snapshot_xip($1)))) '
        'and o.seq > (select s.anchor_seq from relaybox_internal.store s)',
        segment
    )
    into seq_ using checked;
    return seq_;
end
$$;
