-- What a consumer reads: messages of a hop's log after a position, in order, published ones only.
-- Runs with its owner's rights: consumers have none on the log itself. 0 or null: from the first one that is kept.
-- Raises RB004 for a hop that does not arrive here, RB034 for a position that is no longer kept, RB036 for no max_count, RB038 for
-- one that is detached.
create or replace function relaybox.read_log(hop_name text, after_position bigint default 0, max_count integer default 1000)
returns table (
    "position" bigint, message_id uuid, topic text, sender text, epoch integer, index bigint,
    key text, payload text, payload_bytes bytea, headers jsonb, clock jsonb, sent_at timestamptz
)
language plpgsql stable security definer
set search_path = pg_catalog, relaybox, pg_temp
as $$
declare
    log_here relaybox.hop_in;
    lies relaybox.detached_segment;
begin
    perform relaybox.require_count(max_count);
    after_position := coalesce(after_position, 0);
    select * into log_here from relaybox.hop_in i where i.hop = hop_name;
    if not found then
        raise exception using errcode = 'RB004', message = format('hop %s does not arrive in this store', left(hop_name, 70)),
            hint = 'Known here: ' || coalesce((select string_agg(i.hop, ', ' order by i.hop) from relaybox.hop_in i), 'none') || '.';
    end if;
    if after_position > 0 and after_position < log_here.first_kept_position - 1 then
        select * into lies from relaybox.detached_segment d
        where d.hop_id = log_here.hop_id and d.state = 'detached' and after_position + 1 between d.first and d.last;
        if found then
            raise exception using errcode = 'RB038',
                message = format(
                    'hop %s: position %s is detached, its message lies in %s; the first one here is %s',
                    hop_name, after_position + 1, lies.directory, log_here.first_kept_position
                ),
                hint = format('Bring it back: relaybox attach %s %s', (select s.store from relaybox.store s), hop_name);
        end if;
        raise exception using errcode = 'RB034',
            message = format('hop %s: position %s is no longer kept here; the first one is %s', hop_name, after_position + 1, log_here.first_kept_position),
            hint = format('Read after position 0 for all that is kept, or after %s.', log_here.first_kept_position - 1);
    end if;
    return query
    select
        l.position, l.message_id, l.topic, l.sender, l.epoch, l.index, l.key, l.payload, l.payload_bytes, l.headers, l.clock, l.sent_at
    from relaybox.log l
    where l.hop_id = log_here.hop_id and l.position > after_position and l.position <= log_here.published_position
    order by l.position
    limit max_count;
end
$$;
