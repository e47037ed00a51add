-- What consumers of a stream read: the messages after a place, in the order of their places. Reads only, asks for no subscription.
-- Runs with its owner's rights. Plans are fixed here, since consumers' sessions have the settings that they have:
-- a run of positions is one range scan in order, a list of positions a lookup each. After 0 or null: from the first kept.
-- Raises RB032 for an unknown stream, RB034 for a place that is no longer kept, RB036 for no max_count, RB038 for one that is detached.
create or replace function relaybox.read_stream(stream_name text, after_place bigint default 0, max_count integer default 1000)
returns table (
    place bigint, hop text, "position" bigint, message_id uuid, topic text, sender text, epoch integer, index bigint,
    key text, payload text, payload_bytes bytea, headers jsonb, clock jsonb, sent_at timestamptz
)
language plpgsql stable security definer
set search_path = pg_catalog, relaybox, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
set work_mem = '64MB'
as $$
declare
    known relaybox.stream;
    run record;
    through bigint;
    first bigint;
    last bigint;
begin
    perform relaybox.require_count(max_count);
    select * into known from relaybox.stream s where s.stream = stream_name;
    if not found then
        raise exception using errcode = 'RB032', message = format('there is no stream %s in this store', left(stream_name, 70)),
            hint = 'Known here: ' || coalesce((select string_agg(s.stream, ', ' order by s.stream) from relaybox.stream s), 'none') || '.';
    end if;
    if after_place > 0 and after_place < known.first_kept_place - 1 then
        perform relaybox.refuse_detached(known, after_place + 1, format('stream %s', stream_name));
        raise exception using errcode = 'RB034',
            message = format('stream %s: place %s is no longer kept; the first one is %s', stream_name, after_place + 1, known.first_kept_place),
            hint = format('Read after place 0 for all that is kept, or after %s.', known.first_kept_place - 1);
    end if;
    after_place := greatest(after_place, known.first_kept_place - 1);
    if after_place >= known.last_place then
        return;
    end if;
    through := least(known.last_place, after_place + max_count);
    for run in
        select d.first_place, d.last_place, d.hop_id, i.hop, d.first_position, d.positions
        from relaybox.delivery d
        join relaybox.hop_in i on i.hop_id = d.hop_id
        where d.stream_id = known.stream_id and d.last_place > after_place
        order by d.last_place
    loop
        exit when run.first_place > through;
        first := greatest(run.first_place, after_place + 1) - run.first_place;
        last := least(run.last_place, through) - run.first_place;
        if run.positions is null then
            return query
            select
                l.position - run.first_position + run.first_place, run.hop, l.position, l.message_id, l.topic, l.sender, l.epoch, l.index,
                l.key, l.payload, l.payload_bytes, l.headers, l.clock, l.sent_at
            from relaybox.log l
            where l.hop_id = run.hop_id and l.position >= run.first_position + first and l.position <= run.first_position + last
            order by l.position;
        else
            return query
            select
                run.first_place + first + u.n - 1, run.hop, l.position, l.message_id, l.topic, l.sender, l.epoch, l.index,
                l.key, l.payload, l.payload_bytes, l.headers, l.clock, l.sent_at
            from unnest(run.positions[first + 1:last + 1]) with ordinality u (wanted, n)
            join relaybox.log l on l.hop_id = run.hop_id and l.position = u.wanted
            order by u.n;
        end if;
    end loop;
end
$$;
