-- Refuses a read that found fewer messages than its snapshot has. who: the reader and its range;
-- log_ids: the logs where the messages should be. Raises 40001 if a segment was dropped or detached
-- after the snapshot: a new transaction sees what is kept. Else a message is missing that retention
-- did not drop: RB012. Caller: holds the logs (keep_segments()). pg_inherits is as old as the
-- snapshot, rights on a table are not.
create or replace function relaybox_internal.refuse_missing_messages(
    who text, log_ids integer[], missing_count bigint
)
returns void
language plpgsql volatile
as $$
begin
    if exists (
        select from unnest(log_ids) as log (id)
        join pg_inherits segment
            on segment.inhparent = to_regclass(format('relaybox_internal.log_%s', log.id))
        where has_table_privilege(segment.inhrelid, 'select') is null
    ) then
        raise exception using errcode = '40001',
            message = format(
                '%s: %s messages were dropped or detached after this transaction took its snapshot',
                who, missing_count
            ),
            hint = 'Begin a new transaction and read again: it says what is kept.';
    end if;
    raise exception using errcode = 'RB012',
        message = format(
            '%s: %s messages are missing in the store, and retention did not drop them',
            who, missing_count
        ),
        hint = format('Find out which: relaybox verify %s', (
            select string_agg(distinct split_part(i.hop, '/', 1), ' ')
            from relaybox_internal.hop_in i where i.log_id = any(log_ids)
        ));
end
$$;
