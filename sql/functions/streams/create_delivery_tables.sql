-- Makes the temporary tables of a decision in any order. A session keeps them when init renews the
-- functions: a table whose columns change needs another name.
create or replace function relaybox_internal.create_delivery_tables() returns void
language plpgsql volatile
as $$
begin
    -- a sender and epoch of the decision. is_in_order: nothing to decide; is_stalled: its messages
    -- stay undecided in the log; resumes_after: it was stalled, and its messages after this
    -- position are classified now; given_up: indexes that an operator skipped
    create temporary table decision_sender (
        sender text, epoch integer, first_index bigint, last_index bigint, is_ascending boolean,
        first_sent_at timestamptz, sender_id integer, kind text, declared_at timestamptz,
        first_declared_at timestamptz, is_of_another_store boolean, has_begun boolean,
        watermark bigint, given_up int8multirange, resumes_after bigint, is_in_order boolean,
        is_stalled boolean, primary key (sender, epoch)
    );
    -- a message that is classified one by one. outcome: duplicate, or the reason to set it aside;
    -- null: neither. is_indexed: its index is resolved, delivered or not, or will be when the
    -- message is released. release_seq: the arrival number at which it is delivered; null: not yet.
    -- release_rank: its order among those of the same release_seq
    create temporary table classified (
        arrival_seq bigint, log_id integer, log_position bigint, sender_id integer, epoch integer,
        index bigint, is_new boolean, outcome text, original_position bigint, is_indexed boolean,
        release_seq bigint, release_rank bigint
    );
    -- a lower epoch of a sender, and the arrival number of the message that ends it
    create temporary table epoch_end (sender_id integer primary key, ended_at_seq bigint);
    -- a message whose sender gave its message_id before, within the window
    create temporary table repeated_id (log_position bigint primary key, original_position bigint);
    -- indexes of this decision, beyond the watermark, that earlier decisions have accepted
    create temporary table already_seen (
        sender_id integer, chunk bigint, indexes int8multirange, primary key (sender_id, chunk)
    );
    -- an index that came again, and where it came first
    create temporary table repeated_index (
        log_id integer, sender_id integer, index bigint, original_position bigint,
        primary key (sender_id, index)
    );
    -- a sender whose accepted indexes leave no gap behind
    create temporary table sender_without_gap (sender_id integer primary key);
end
$$;
