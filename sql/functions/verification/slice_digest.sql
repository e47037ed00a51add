-- Returns count and content of a slice in one row. Two stores with the same digest hold the same
-- messages in the same order, and, with as many rows as positions, at the same positions. Arguments
-- as in slice_content(). With `offset 0`, rows are hashed before they are sorted, so that no
-- payload is sorted.
create or replace function relaybox_internal.slice_digest(
    reads_log integer, lower_ pg_snapshot, upper_ pg_snapshot, topics_ text[],
    first_read bigint, last_read bigint, first_position bigint, through_position bigint
)
returns table (row_count bigint, digest text)
language sql stable
as $$
    select count(*), md5(string_agg(d.message_hash, '' order by d.log_position))
    from (
        select c.log_position, c.message_hash
        from relaybox_internal.slice_content(
            reads_log, lower_, upper_, topics_, first_read, last_read, first_position,
            through_position
        ) c
        offset 0
    ) d
$$;
