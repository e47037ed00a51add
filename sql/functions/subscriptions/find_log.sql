-- The log of a hop that a consumer reads after a position, in one snapshot: what is kept of it and
-- what is published. Raises RB004 for a hop that does not arrive here, RB034 for a position that is
-- no longer kept, RB038 for one that is detached.
create or replace function relaybox_internal.find_log(hop_name text, after_position bigint)
returns relaybox_internal.hop_in
language plpgsql stable
as $$
declare
    found_log relaybox_internal.hop_in;
    segment relaybox_internal.detached_segment;
begin
    select * into found_log from relaybox_internal.hop_in i where i.hop = hop_name;
    if not found then
        raise exception using errcode = 'RB004',
            message = format('hop %s does not arrive in this store', left(hop_name, 70)),
            hint = 'Known here: ' || coalesce((
                select string_agg(i.hop, ', ' order by i.hop) from relaybox_internal.hop_in i
            ), 'none') || '.';
    end if;
    if after_position > 0 and after_position < found_log.first_kept_position - 1 then
        select * into segment from relaybox_internal.detached_segment d
        where d.log_id = found_log.log_id and d.state = 'detached'
            and after_position + 1 between d.first and d.last;
        if found then
            raise exception using errcode = 'RB038',
                message = format(
                    'hop %s: position %s is detached, its message lies in %s; '
                    || 'the first one here is %s',
                    hop_name, after_position + 1, segment.directory, found_log.first_kept_position
                ),
                hint = format(
                    'Bring it back: relaybox attach %s %s',
                    (select s.store from relaybox_internal.store s), hop_name
                );
        end if;
        raise exception using errcode = 'RB034',
            message = format(
                'hop %s: position %s is no longer kept here; the first one is %s',
                hop_name, after_position + 1, found_log.first_kept_position
            ),
            hint = format(
                'Read after position 0 for all that is kept, or after %s.',
                found_log.first_kept_position - 1
            );
    end if;
    return found_log;
end
$$;
