-- Sets the planner for a scan of rows that were copied just now, until the end of the transaction.
-- Such rows are not all-visible yet, and their segment has no statistics. A bitmap scan visits each
-- page once, an index-only scan once per row. Half a segment and more is scanned whole, in
-- parallel.
create or replace function relaybox_internal.scan_fresh_rows(row_count bigint) returns void
language plpgsql volatile
as $$
begin
    set local enable_indexonlyscan = off;
    set local enable_indexscan = off;
    set local work_mem = '64MB';
    if row_count > (select s.segment_rows / 2 from relaybox_internal.store s) then
        set local enable_bitmapscan = off;
        set local enable_seqscan = on;
    end if;
end
$$;
