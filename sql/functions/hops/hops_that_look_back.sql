-- Which of these hops look back at so many rows of the outbox from their newest snapshot, or at segments
-- that were sealed since. heads: hops that read the outbox.
create or replace function relaybox_internal.hops_that_look_back(
    heads relaybox_internal.hop_out[], least_rows bigint
)
returns setof text
language plpgsql stable
set plan_cache_mode = force_custom_plan -- so that segments sealed before are left out
set enable_bitmapscan = off
set enable_seqscan = off
as $$
declare
    first_kept constant bigint := (select s.first_kept_seq from relaybox_internal.store s);
    sealed_seq constant bigint := relaybox_internal.sealed_through(relaybox_internal.oldest_lower(heads));
    sealed_now constant bigint := relaybox_internal.sealed_through(pg_current_snapshot());
begin
    if cardinality(heads) = 0 then
        return; -- without the oldest snapshot, all segments would be planned for
    end if;
    return query
    with far as (
        select l.lower::text as lower
        from (select distinct on (h.lower::text) h.lower from unnest(heads) h order by h.lower::text) l
        where relaybox_internal.sealed_through(l.lower) < sealed_now or least_rows <= (
            select count(*) from (
                select from relaybox_internal.sent_rows o
                where o.xid >= pg_snapshot_xmax(l.lower) and (o.seq > sealed_seq or o.seq < first_kept)
                limit least_rows
            ) r
        )
    )
    select h.hop from unnest(heads) h join far f on f.lower = h.lower::text;
end
$$;
