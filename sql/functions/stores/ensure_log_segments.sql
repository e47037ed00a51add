-- Makes the segments of a log up to a position, and one ahead. Called by the driver before it
-- copies. Returns the names of the segments made. Raises RB001, RB003 (also if a segment is
-- unlogged): the first look at the destination before a batch is copied.
create or replace function relaybox_internal.ensure_log_segments(log_id_ integer, through_position bigint) returns text[]
language plpgsql volatile security definer
set search_path = pg_catalog, relaybox, pg_temp
set row_security = off
as $$
declare
    size bigint := (select s.segment_rows from relaybox_internal.store s);
    published bigint := (select i.published_position from relaybox_internal.hop_in i where i.log_id = log_id_);
    made text[] := '{}';
    segment text;
    elsewhere text;
begin
    perform relaybox_internal.require_writable_primary();
    for k in published / size .. through_position / size + 1 loop
        segment := relaybox_internal.segment_name(format('log_%s', log_id_), k);
        if to_regclass('relaybox_internal.' || segment) is null then
            -- one maker at a time: two drivers may be here. Attaching takes this lock too; taken
            -- before the second look, it makes the session see what others committed. A login needs
            -- rights on the table to take it
            execute format('lock table only relaybox_internal.log_%s in share update exclusive mode', log_id_);
            if to_regclass('relaybox_internal.' || segment) is null then
                select format('%s of log_%s', i.inhrelid::regclass, log_id_) into elsewhere
                from pg_inherits i join pg_class c on c.oid = i.inhrelid
                where i.inhparent = format('relaybox_internal.log_%s', log_id_)::regclass and c.relnamespace <> 'relaybox_internal'::regnamespace
                order by c.relname limit 1;
                if elsewhere is not null then
                    raise exception using errcode = 'RB003',
                        message = format('partition %s is not in schema relaybox_internal: no segment is made beside it', elsewhere),
                        hint = 'It brings it back: relaybox init ' || (select s.store from relaybox_internal.store s);
                end if;
                execute format('create table relaybox_internal.%I (like relaybox_internal.log_%s including defaults including constraints)', segment, log_id_);
                perform relaybox_internal.limit_rights(
                    format('relaybox_internal.%I', segment)::regclass, format('relaybox_internal.log_%s', log_id_)::regclass
                );
                execute format('alter table relaybox_internal.log_%s attach partition relaybox_internal.%I for values from (%s) to (%s)', log_id_, segment, k * size,
                (k + 1) * size);
                made := made || segment;
            end if;
        end if;
    end loop;
    perform relaybox_internal.refuse_unlogged(log_id_, published, through_position + size);
    return made;
end
$$;
