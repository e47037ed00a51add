-- Records which positions of its log the adopted batches of a hop have read: as slices, and through
-- which position everything is delivered with each batch. The batches to come leave out what the
-- destination has beyond the last one. Returns how many messages of the log are unread.
-- Caller holds the hop's row, has called match_adopted() and has inserted the batches.
create or replace function relaybox_internal.adopt_reads(
    hop_name text, common_batch bigint, read_through bigint, searched_through bigint,
    ahead int8multirange
)
returns bigint
language plpgsql volatile
as $$
declare
    log_id_ integer := (
        select h.reads_log from relaybox_internal.hop_out h where h.hop = hop_name
    );
    first_missing bigint;
    adopted_through bigint;
begin
    create index on relaybox_adopted (log_position);
    create index on relaybox_adopted (reads);
    select l.log_position into first_missing
    from relaybox_internal.log l
    where l.log_id = log_id_ and l.log_position > read_through
        and l.log_position <= searched_through and not ahead @> l.log_position
        and not exists (select from relaybox_adopted a where a.reads = l.log_position)
    order by l.log_position limit 1;
    with reached as (
        -- everything up to the first position that a later batch has read, or none
        select a.log_position,
            least(
                min(a.reads) over (
                    order by a.log_position desc rows between unbounded preceding and 1 preceding
                ),
                first_missing, searched_through + 1
            ) - 1 as reads_through
        from relaybox_adopted a
    ), adopted as (
        select b.batch, r.reads_through,
            lag(r.reads_through, 1, adopt_reads.read_through) over (order by b.batch) as reads_after
        from relaybox_internal.batch b
        join reached r on r.log_position = b.last_position
        where b.hop = hop_name and b.batch > common_batch
    )
    update relaybox_internal.batch b
    set reads_after = a.reads_after, reads_through = a.reads_through,
        slices = coalesce(s.slices, '[]')
    from adopted a
    left join relaybox_internal.slice_adopted_reads(hop_name, common_batch) s on s.batch = a.batch
    where b.hop = hop_name and b.batch = a.batch;
    adopted_through := relaybox_internal.log_read_through(hop_name);
    update relaybox_internal.hop_out h
    set read_ahead = ahead - int8multirange(int8range(0, adopted_through, '[]')) + coalesce((
        select range_agg(int8range(a.reads, a.reads, '[]'))
        from relaybox_adopted a where a.reads > adopted_through
    ), '{}')
    where h.hop = hop_name;
    return (
        select coalesce(sum(u.last_read - u.first_read + 1), 0)
        from relaybox_internal.log_unread(hop_name) u
    );
end
$$;
