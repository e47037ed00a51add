-- Makes the temporary tables of a decision in causal order. create_delivery_tables() makes the
-- others, and has the rule for changes of a table.
create or replace function relaybox_internal.create_clock_tables() returns void
language plpgsql volatile
as $$
begin
    -- a classified message whose index is resolved. node: 1, 2, 3 ... by sender and index;
    -- release_seq: the largest number means never
    create temporary table causal_message (
        arrival_seq bigint primary key, node bigint unique, log_id integer, log_position bigint,
        sender_id integer, sender text, epoch integer, index bigint, release_seq bigint,
        outcome text, clock_sum numeric, release_rank bigint
    );
    create index causal_message_index on pg_temp.causal_message (sender_id, index);
    create index causal_message_sender on pg_temp.causal_message (sender, epoch);
    -- the stream's state of a sender that clocks name. ended_at_seq: this arrival ends the epoch
    create temporary table named_sender (
        sender text, epoch integer, sender_id integer, watermark bigint, skipped int8multirange,
        ended_at_seq bigint, primary key (sender, epoch)
    );
    -- an index that the clock of a message names and that is not delivered yet. cause_sender_id:
    -- null if the stream has no state of the sender; cause_seq: the named message, if it is here
    create temporary table unmet_cause (
        arrival_seq bigint, cause_sender_id integer, cause_index bigint, ended_at_seq bigint,
        cause_seq bigint
    );
    create index unmet_cause_seq on pg_temp.unmet_cause (cause_seq);
    -- two messages that are released at the same moment, of which one follows the other
    create temporary table release_order (
        arrival_seq bigint, follows_seq bigint, is_by_clock boolean
    );
    create index release_order_seq on pg_temp.release_order (arrival_seq);
    create index release_order_follows on pg_temp.release_order (follows_seq);
    -- a message that may be part of a cycle of clocks. reaches_seq: the last arrival among the
    -- messages that it follows, directly or not
    create temporary table cycle_message (arrival_seq bigint primary key, reaches_seq bigint);
end
$$;
