-- Finds out which of these hops have no row to read in the outbox, from their newest snapshot on, in
-- one look for all of them: in looks of their own, hundreds of idle hops would each read all that a
-- busy one has sent. The look goes through the transactions in their order, piece by piece, and a hop
-- drops out at the first piece that may have a row of its topics. So what waits for a hop that nobody
-- drives is not read for the others.
-- heads: hops that read the outbox, as they were at the caller's snapshot or before. most_rows: ends
-- after about so many rows; null: at the last one. idle: hops without a row in any transaction below
-- through_xid that the caller's snapshot sees.
create or replace function relaybox_internal.look_at_outbox(
    heads relaybox_internal.hop_out[], most_rows bigint, out idle text[], out through_xid xid8
)
language plpgsql stable
set plan_cache_mode = force_custom_plan -- so that segments sealed before are left out
set enable_bitmapscan = off
set enable_seqscan = off
set enable_sort = off
as $$
declare
    upper_xid constant xid8 := pg_snapshot_xmax(pg_current_snapshot());
    first_kept constant bigint := (select s.first_kept_seq from relaybox_internal.store s);
    open_before constant xid8[] := array(
        select distinct x.xid from unnest(heads) h cross join pg_snapshot_xip(h.lower) x (xid)
    );
    rest relaybox_internal.hop_out[] := heads;
    oldest pg_snapshot := relaybox_internal.oldest_lower(heads);
    sealed_seq bigint := relaybox_internal.sealed_through(oldest);
    rows_left bigint := most_rows;
    piece_rows bigint := least(500, most_rows);
    piece record;
begin
    idle := '{}';
    through_xid := upper_xid;
    if cardinality(heads) = 0 then
        return; -- without the oldest snapshot, all segments would be planned for
    end if;
    -- of transactions that a snapshot saw open
    with sent as materialized (
        select o.topic, o.xid, max(o.seq) as newest_seq
        from relaybox_internal.sent_rows o
        where o.xid = any(open_before) and (o.seq > sealed_seq or o.seq < first_kept)
        group by o.topic, o.xid
    )
    select array(
        select h from unnest(heads) h
        where not exists (
            select from sent s
            where s.topic = any(h.topics) and s.newest_seq > h.anchor_seq
                and not pg_visible_in_snapshot(s.xid, h.lower)
        )
    )
    into rest;
    through_xid := pg_snapshot_xmax(oldest);
    while cardinality(rest) > 0 and through_xid < upper_xid and coalesce(rows_left > 0, true) loop
        with sent as materialized (
            select
                p.topic, max(p.xid::text::bigint) as newest_xid, max(p.seq) as newest_seq,
                count(*) as row_count
            from (
                select o.topic, o.xid, o.seq from relaybox_internal.sent_rows o
                where o.xid >= through_xid and o.xid < upper_xid
                    and (o.seq > sealed_seq or o.seq < first_kept)
                order by o.xid fetch first piece_rows rows with ties
            ) p
            group by p.topic
        )
        select
            array(
                select h from unnest(rest) h
                where not exists (
                    select from sent s
                    where s.topic = any(h.topics) and s.newest_seq > h.anchor_seq
                        and s.newest_xid >= pg_snapshot_xmax(h.lower)::text::bigint
                )
            ) as rest,
            coalesce(sum(s.row_count), 0) as row_count, (max(s.newest_xid) + 1)::text::xid8 as next_xid
        into piece
        from sent s;
        rest := piece.rest;
        if piece.row_count < piece_rows then
            through_xid := upper_xid;
        else
            -- those that are left may have seen more
            oldest := relaybox_internal.oldest_lower(rest);
            sealed_seq := relaybox_internal.sealed_through(oldest);
            through_xid := greatest(piece.next_xid, pg_snapshot_xmax(oldest));
            rows_left := rows_left - piece.row_count;
            piece_rows := least(4 * piece_rows, 500000, rows_left);
        end if;
    end loop;
    idle := array(select h.hop from unnest(rest) h);
end
$$;
