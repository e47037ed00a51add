-- Was this database loaded from a dump since its numbering was recorded? Then another transaction
-- has written the row than the one it names, also where the cluster is the same as before.
create or replace function relaybox_internal.is_reloaded() returns boolean
language sql stable
as $$
    select n.xmin::text::bigint <> n.xid::text::numeric % 4294967296 from relaybox_internal.numbering n
$$;
