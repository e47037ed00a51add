-- Makes the temporary tables of the senders that sort_senders() decides on. Their arrays are not
-- compressed, which would cost more than the decision. create_delivery_tables() makes the other
-- tables, and has the rule for changes of a table.
create or replace function relaybox_internal.create_sorting_tables() returns void
language plpgsql volatile
as $$
begin
    -- the messages of a sender in a batch, in the order of arrival
    create temporary table arrived_sender (
        sender text, epoch integer, first_index bigint, last_index bigint, indexes bigint[],
        log_positions bigint[], primary key (sender, epoch)
    );
    alter table pg_temp.arrived_sender
    alter column indexes set storage external, alter column log_positions set storage external;
    -- a sender that sort_senders() has decided on. first_seq: of its first message that is no
    -- duplicate; null: there is none. first_index to last_position: where in the log its new
    -- indexes are. released_positions, release_seqs: the messages that are delivered, in the order
    -- of their indexes, and the arrival number at which each is delivered
    create temporary table sorted_sender (
        sender_id integer primary key, epoch integer, first_seq bigint, first_index bigint,
        last_index bigint, first_position bigint, last_position bigint, last_released bigint,
        released_positions bigint[], release_seqs bigint[]
    );
    alter table pg_temp.sorted_sender
    alter column released_positions set storage external,
    alter column release_seqs set storage external;
end
$$;
