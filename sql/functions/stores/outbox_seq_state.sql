-- Where the sequence of the outbox stands: the last seq that it gave (0: none), the first one that a
-- segment covers, the newest one of a row if that is behind neither (null: it is not), and how many
-- rows lie before all segments and are planned by no hop. A sequence that was set back behind
-- segments that retention has dropped gives such rows: they are in the overflow. Reads indexes and
-- the catalog. Readers, viewers and drivers may ask. Takes no lock.
create or replace function relaybox_internal.outbox_seq_state(
    out last_seq bigint, out first_kept bigint, out newest_seq bigint, out stray_count bigint
)
language plpgsql stable
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $$
begin
    last_seq := coalesce(pg_sequence_last_value('relaybox.outbox_seq'), 0);
    first_kept := coalesce(
        (select min(s.first) from relaybox_internal.segments() s where s.log_id is null), 0
    );
    if exists (select from relaybox_internal.sent_rows o where o.seq > last_seq) then
        newest_seq := (select max(o.seq) from relaybox_internal.sent_rows o);
    end if;
    stray_count := (
        select count(*) from relaybox_internal.sent_rows o
        where o.seq < first_kept and not exists (select from relaybox_internal.hops_that_planned(o.xid))
    );
end
$$;
