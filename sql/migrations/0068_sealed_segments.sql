-- pre: adds a table and a function
-- A hop no longer looks at segments of the outbox that are sealed.

-- One row for each sealed segment: its table refuses rows from then on, so no later transaction has a
-- row in it. Hops whose newest snapshot is after sealed_xid never look at it again.
create table relaybox_internal.sealed_segment (
    last_seq bigint primary key,
    first_seq bigint not null,
    segment oid not null,
    sealed_xid xid8 not null default pg_current_xact_id(),
    sealed_at timestamptz not null default clock_timestamp(),
    constraint sealed_segment_not_empty check (last_seq >= first_seq)
);
comment on table relaybox_internal.sealed_segment is
'Segments of the outbox that take no rows any more, from the oldest on.';
comment on column relaybox_internal.sealed_segment.segment is
'Its table. A dump and reload gives it another number.';
comment on column relaybox_internal.sealed_segment.sealed_xid is
'The sealing transaction: those of all rows in it were before. It equals the row''s xmin unless the '
'store was dumped and reloaded; then the segment counts as not sealed.';

-- The trigger of a sealed segment. Not a file of init: the init of an older version would drop the
-- function, and segments need it.
create function relaybox_internal.refuse_late_row() returns trigger
language plpgsql security definer
set search_path = pg_catalog, relaybox, pg_temp
set row_security = off
as $$
begin
    -- a dump brings the trigger to another cluster, where it refuses nothing
    if not exists (
        select from relaybox_internal.sealed_segment s
        where s.segment = tg_relid
            and s.xmin::text::bigint = s.sealed_xid::text::numeric % 4294967296
    ) then
        return new;
    end if;
    raise exception using errcode = 'RB009',
        message = format(
            'seq %s is in segment %s, which is sealed: hops have read it, and would never read this '
            'row. The sequence relaybox.outbox_seq is at %s', new.seq, tg_table_name,
            coalesce(pg_sequence_last_value('relaybox.outbox_seq'), 0)
        ),
        hint = 'If the sequence was set back, run: relaybox init '
            || (select s.store from relaybox_internal.store s)
            || '. It moves the sequence on. Else insert the row again, without a seq.';
end
$$;
comment on function relaybox_internal.refuse_late_row() is
'Refuses rows of a sealed segment of the outbox.';
revoke all on function relaybox_internal.refuse_late_row() from public;
