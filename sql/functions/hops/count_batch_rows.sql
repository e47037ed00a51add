-- Counts the rows of a batch that is about to be published. has_own_indexes: a row has an index of
-- its sender, or its sender is declared. If the first row has an index, fills
-- pg_temp.published_sender. Notes in the session if no row expires, and if none is delayed (find_times()). Changes
-- planner settings until the end of the transaction. Raises RB014 if rows are missing.
create or replace function relaybox_internal.count_batch_rows(
    head relaybox_internal.hop_in, batch_ bigint, first_position bigint, last_position bigint,
    out row_count bigint, out has_own_indexes boolean
)
language plpgsql volatile
as $$
declare
    declared text[] := (
        select array_agg(distinct d.sender)
        from relaybox_internal.stream_log l
        join relaybox_internal.sender d on d.origin = l.origin
        where l.log_id = head.log_id
    );
    first_has_own_index boolean := (
        select l.epoch > 0
        from relaybox_internal.log l
        where l.log_id = head.log_id and l.log_position = first_position
    );
    has_expiry boolean;
    has_delay boolean;
begin
    perform relaybox_internal.scan_fresh_rows(last_position - first_position + 1);
    perform relaybox_internal.make_published_sender();
    if first_has_own_index then
        -- most rows probably have one: deliver_next() in this session finds the senders counted
        with counted as materialized (
            select * from relaybox_internal.count_senders(head.log_id, first_position, last_position)
        ), kept as (
            insert into pg_temp.published_sender (
                log_id, batch, sender, epoch, row_count, first_index, last_index, ascending, first_sent_at
            )
            select head.log_id, batch_, c.sender, c.epoch, c.row_count, c.first_index, c.last_index,
                c.ascending, c.first_sent_at
            from counted c
        )
        select coalesce(sum(c.row_count), 0),
            bool_or(c.epoch > 0 or coalesce(c.sender = any(declared), false)), bool_or(c.has_expiry),
            bool_or(c.has_delay)
        into row_count, has_own_indexes, has_expiry, has_delay
        from counted c;
    else
        -- plpgsql counts in parallel only in a dynamic statement
        execute '
            select count(*), max(l.epoch) > 0 or coalesce(bool_or(l.sender = any($4)), false),
                bool_or(l.headers ? $5), bool_or(l.headers ? $6)
            from relaybox_internal.log l
            where l.log_id = $1 and l.log_position >= $2 and l.log_position <= $3'
        into row_count, has_own_indexes, has_expiry, has_delay
        using head.log_id, first_position, last_position, declared, 'relaybox-expires-at', 'relaybox-deliver-after';
    end if;
    if has_expiry is not true then
        perform set_config(
            'relaybox.without_expiry', format('%s %s %s', head.log_id, first_position, last_position), false
        );
    end if;
    if has_delay is not true then
        perform set_config(
            'relaybox.without_delay', format('%s %s %s', head.log_id, first_position, last_position), false
        );
    end if;
    if row_count <> last_position - first_position + 1 then
        raise exception using errcode = 'RB014',
            message = format(
                'hop %s: batch %s has %s rows in positions %s to %s, expected %s',
                head.hop, batch_, row_count, first_position, last_position,
                last_position - first_position + 1
            ),
            hint = 'Rows of this log were removed after they were copied. Nothing was published.';
    end if;
end
$$;
