-- Makes the functions that check messages by the schemas of relaybox.yaml, and writes down which topics
-- are checked. wanted: what contracts.store_checks writes. A function is made anew if its text is
-- another one, or if it was dropped or changed by hand; this locks no table, and each message is checked
-- by the functions of before or by these. Nothing is dropped here: place_payload_trigger() does, after
-- the commit. Returns what it changed. Called by init. Raises RB003: a pattern is too large for Postgres.
create or replace function relaybox_internal.renew_payload_checks(wanted jsonb) returns text[]
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    told text[] := '{}';
    one record;
begin
    if wanted -> 'topics' = '{}' and not exists (select from relaybox_internal.check_function)
        and not exists (select from relaybox_internal.checked_topic)
    then
        return told;
    end if;
    for one in
        select p.value ->> 'place' as place, p.value ->> 'pattern' as pattern from jsonb_array_elements(wanted -> 'patterns') p (value)
    loop
        begin
            perform '' collate "C" ~ one.pattern;
        exception when invalid_regular_expression then
            raise exception using errcode = 'RB003',
                message = format('%s: Postgres can''t use it: %s. Nothing was changed', one.place, sqlerrm),
                hint = 'Write it with fewer or smaller repeats. Then run: relaybox init';
        end;
    end loop;
    for one in
        select f.value ->> 'name' as function_name, f.value ->> 'text' as text
        from jsonb_array_elements(wanted -> 'functions') with ordinality f (value, place)
        order by f.place
    loop
        if exists (
            select from relaybox_internal.check_function c
            where
                c.function_name = one.function_name and c.text_digest = md5(one.text)
                and c.body_digest = relaybox_internal.check_body_digest(one.function_name)
        ) then
            continue;
        end if;
        execute one.text;
        perform relaybox_internal.limit_check_rights(one.function_name);
        insert into relaybox_internal.check_function as c (function_name, text_digest, body_digest)
        values (one.function_name, md5(one.text), relaybox_internal.check_body_digest(one.function_name))
        on conflict (function_name) do update
        set text_digest = excluded.text_digest, body_digest = excluded.body_digest, made_at = clock_timestamp();
        told := told || format('function relaybox_internal.%I made (%s)', one.function_name, left(md5(one.text), 8));
    end loop;
    with removed as (
        delete from relaybox_internal.checked_topic t where not wanted -> 'topics' ? t.topic returning t.topic
    )
    select told || coalesce(array_agg(format('topic %s is checked no more', r.topic) order by r.topic), '{}') into told
    from removed r;
    with written as (
        insert into relaybox_internal.checked_topic as t (topic, outbox, first_hop, newest_version)
        select w.key, w.value ->> 'outbox', w.value ->> 'first_hop', (w.value ->> 'newest_version')::integer
        from jsonb_each(wanted -> 'topics') w
        on conflict (topic) do update set
            outbox = excluded.outbox, first_hop = excluded.first_hop, newest_version = excluded.newest_version
        where
            (t.outbox, t.first_hop, t.newest_version)
            is distinct from (excluded.outbox, excluded.first_hop, excluded.newest_version)
        returning t.topic, t.outbox, t.first_hop, t.newest_version
    )
    select told || coalesce(array_agg(format(
        'topic %s: outbox %s, first_hop %s, versions 1 to %s', w.topic, w.outbox, w.first_hop, w.newest_version
    ) order by w.topic), '{}') into told
    from written w;
    -- no row of hop_in is changed: slices that are being copied hold them
    delete from relaybox_internal.hop_check c
    using relaybox_internal.hop_in i
    where i.log_id = c.log_id and wanted -> 'hops' -> i.hop ->> c.topic is null;
    insert into relaybox_internal.hop_check as c (log_id, topic, rule)
    select i.log_id, t.key, t.value
    from relaybox_internal.hop_in i
    cross join lateral jsonb_each_text(wanted -> 'hops' -> i.hop) t
    on conflict (log_id, topic) do update set rule = excluded.rule where c.rule <> excluded.rule;
    return told;
end
$$;
