-- The temporary tables of a decision in causal order; create_delivery_tables() has the others, and the rule for a change.
create or replace function relaybox_internal.create_clock_tables() returns void
language plpgsql volatile
as $$
begin
    -- a classified message whose index is done with. node: 1, 2, 3 ... by sender and index; release_seq: the largest number for never
    create temporary table causal_message (
        arrival_seq bigint primary key, node bigint unique, log_id integer, log_position bigint, sender_id integer, sender text,
        epoch integer, index bigint, release_seq bigint, outcome text, clock_sum numeric, release_rank bigint
    );
    create index causal_message_index on pg_temp.causal_message (sender_id, index);
    create index causal_message_sender on pg_temp.causal_message (sender, epoch);
    -- a sender that clocks name, as the stream knows it; ended_at_seq: the epoch ends with this arrival
    create temporary table named_sender (
        sender text, epoch integer, sender_id integer, watermark bigint, skipped int8multirange, ended_at_seq bigint,
        primary key (sender, epoch)
    );
    -- what the clock of a message names and is not delivered yet. cause_sender_id null: of a sender that is not known here;
    -- cause_seq: the message that is named, if it is here
    create temporary table unmet_cause (
        arrival_seq bigint, cause_sender_id integer, cause_index bigint, ended_at_seq bigint, cause_seq bigint
    );
    create index unmet_cause_seq on pg_temp.unmet_cause (cause_seq);
    -- of two messages that are released at the same moment the one that follows the other
    create temporary table release_order (arrival_seq bigint, follows_seq bigint, is_by_clock boolean);
    create index release_order_seq on pg_temp.release_order (arrival_seq);
    create index release_order_follows on pg_temp.release_order (follows_seq);
    -- a message that may be part of a cycle of clocks; reaches_seq: the last one of all that it follows, directly or not
    create temporary table cycle_message (arrival_seq bigint primary key, reaches_seq bigint);
end
$$;
