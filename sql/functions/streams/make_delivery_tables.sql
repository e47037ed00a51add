-- What one decision works on: temporary tables of the session, emptied for it. Small ones by delete, which keeps the plans of all
-- that reads them; large ones by truncate.
create or replace function relaybox.make_delivery_tables() returns void
language plpgsql volatile
as $$
declare
    name text;
begin
    if to_regclass('pg_temp.batch_sender') is null then
        -- a sender and epoch of the batch. in_order: nothing to decide; waits: stalled, stays in its log;
        -- given_up: indexes that an operator skipped
        create temporary table batch_sender (
            sender text, epoch integer, first_index bigint, last_index bigint, ascending boolean, first_sent_at timestamptz,
            sender_id integer, kind text, declared_at timestamptz, first_declared_at timestamptz, of_another_store boolean, has_begun boolean,
            watermark bigint, given_up int8multirange, reads_after bigint, in_order boolean, waits boolean,
            primary key (sender, epoch)
        );
        -- a message that is looked at one by one. t: the arrival number at which it may be delivered, null: not yet;
        -- ordinal: its order among those of the same t; counts: its index is done with, delivered or not
        create temporary table judged (
            taken bigint, hop_id integer, "position" bigint, sender_id integer, epoch integer, index bigint, is_new boolean,
            verdict text, original bigint, counts boolean, t bigint, ordinal bigint
        );
        create temporary table fence (sender_id integer primary key, fenced_at bigint);
        create temporary table id_again ("position" bigint primary key, original bigint);
        create temporary table seen_again (
            sender_id integer, chunk bigint, indexes int8multirange, primary key (sender_id, chunk)
        );
        -- an index that came again; original: where it came first
        create temporary table repeated (
            hop_id integer, sender_id integer, index bigint, original bigint, primary key (sender_id, index)
        );
        -- what a clock asks for that is not delivered yet; sender_id null: of a sender that is not known here
        -- for_taken: the message that is asked for, if it is here
        create temporary table cause (taken bigint, sender_id integer, index bigint, fenced_at bigint, for_taken bigint);
        create index cause_for on pg_temp.cause (for_taken);
        -- causal: a judged message whose index counts. node: 1, 2, 3 ... by sender and index
        create temporary table clocked (
            taken bigint primary key, node bigint unique, hop_id integer, "position" bigint, sender_id integer, sender text, epoch integer,
            index bigint, t bigint, verdict text, clock_sum numeric, ordinal bigint
        );
        create index clocked_index on pg_temp.clocked (sender_id, index);
        create index clocked_sender on pg_temp.clocked (sender, epoch);
        -- a sender that clocks name, as the stream knows it
        create temporary table named (
            sender text, epoch integer, sender_id integer, watermark bigint, skipped int8multirange, fenced_at bigint,
            primary key (sender, epoch)
        );
        -- of two messages that are let through at the same moment the one that follows the other
        create temporary table wait (taken bigint, for_taken bigint, by_clock boolean);
        create index wait_taken on pg_temp.wait (taken);
        create index wait_for on pg_temp.wait (for_taken);
        create temporary table circle (taken bigint primary key, reaches bigint);
        -- a sender whose accepted indexes leave no gap behind
        create temporary table remembered (sender_id integer primary key);
    else
        for name in
            select t from unnest(array[
                'remembered', 'repeated', 'batch_sender', 'judged', 'fence', 'id_again', 'seen_again', 'cause', 'clocked', 'named', 'wait'
            ]) t
            where pg_relation_size(('pg_temp.' || t)::regclass) > 0
        loop
            if pg_relation_size(('pg_temp.' || name)::regclass) > 131072 then
                execute format('truncate pg_temp.%I', name);
            else
                execute format('delete from pg_temp.%I', name);
            end if;
        end loop;
    end if;
end
$$;
