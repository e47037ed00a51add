-- What one decision works on: temporary tables of the session, emptied at every commit.
create or replace function relaybox.make_delivery_tables() returns void
language plpgsql volatile
as $$
begin
    if to_regclass('pg_temp.batch_sender') is null then
        -- a sender and epoch of the batch. in_order: nothing to decide; waits: stalled, stays in its log
        create temporary table batch_sender (
            sender text, epoch integer, first_index bigint, last_index bigint, ascending boolean,
            sender_id integer, kind text, declared_at timestamptz, first_declared_at timestamptz, of_another_store boolean, has_begun boolean,
            watermark bigint, skipped int8multirange, reads_after bigint, in_order boolean, waits boolean,
            primary key (sender, epoch)
        ) on commit delete rows;
        -- a message that is looked at one by one. t: the arrival number at which it may be delivered, null: not yet;
        -- ordinal: its order among those of the same t; counts: its index is done with, delivered or not
        create temporary table judged (
            taken bigint, hop_id integer, "position" bigint, sender_id integer, epoch integer, index bigint, is_new boolean,
            verdict text, original bigint, counts boolean, t bigint, ordinal bigint
        ) on commit delete rows;
        create temporary table fence (sender_id integer primary key, fenced_at bigint) on commit delete rows;
        create temporary table id_again ("position" bigint primary key, original bigint) on commit delete rows;
        create temporary table seen_again (
            sender_id integer, chunk bigint, indexes int8multirange, primary key (sender_id, chunk)
        ) on commit delete rows;
        -- an index that came again; original: where it came first
        create temporary table repeated (
            sender_id integer, index bigint, original bigint, primary key (sender_id, index)
        ) on commit delete rows;
        -- what a clock asks for that is not delivered yet; sender_id null: of a sender that is not known here
        create temporary table cause (taken bigint, sender_id integer, index bigint, fenced_at bigint) on commit delete rows;
        -- a sender whose accepted indexes leave no gap behind
        create temporary table remembered (sender_id integer primary key) on commit delete rows;
    else
        truncate pg_temp.remembered, pg_temp.repeated, pg_temp.batch_sender, pg_temp.judged, pg_temp.fence, pg_temp.id_again, pg_temp.seen_again, pg_temp.cause;
    end if;
end
$$;
