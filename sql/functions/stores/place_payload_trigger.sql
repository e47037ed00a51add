-- Puts the trigger on the outbox that refuses what does not conform, for the topics that checked_topic
-- names; takes it away where it names none. Drops the functions that are needed no more. Returns what it
-- changed; nothing to do: it locks nothing. Else it waits until no transaction that has inserted
-- messages is open, never for longer than half of deadlock_timeout at once: so long producers wait
-- behind it; between these attempts they go on. Fails after lock_timeout (55P03). A transaction of its
-- own, after renew_payload_checks(). Called by init.
-- The trigger looks at the rows that its own transaction has sent: not at those that a reload or
-- renumber_late_rows() brings, which were accepted before.
create or replace function relaybox_internal.place_payload_trigger() returns text[]
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    attempt constant interval := current_setting('deadlock_timeout')::interval / 2;
    patience constant interval := current_setting('lock_timeout')::interval;
    ends constant timestamptz := clock_timestamp() + patience;
    wanted text[];
    unneeded text[];
    told text[] := '{}';
    one text;
begin
    loop
        wanted := array(
            select t.topic from relaybox_internal.checked_topic t where t.outbox = 'refuse' order by t.topic collate "C"
        );
        unneeded := array(
            select c.function_name
            from relaybox_internal.check_function c
            left join relaybox_internal.checked_topic t
                on c.function_name = format('payload.%s.v%s', t.topic, substring(c.function_name from e'\\d+$'))
                and substring(c.function_name from e'\\d+$')::integer <= t.newest_version
            where
                case
                    when c.function_name ~ e'^payload\\.' then t.topic is null
                    when c.function_name = 'refuse_payload' then wanted = '{}'
                    else not exists (select from relaybox_internal.checked_topic)
                end
            order by c.function_name
        );
        if coalesce(relaybox_internal.payload_trigger_topics(), '{}') = wanted and unneeded = '{}' and (
            wanted <> '{}' or not exists (
                select from pg_trigger g
                where g.tgrelid = 'relaybox.outbox'::regclass and g.tgname = 'refuse_payload' and not g.tgisinternal
            )
        ) then
            perform set_config('lock_timeout', extract(epoch from patience)::numeric * 1000 || 'ms', true);
            return told;
        end if;
        begin
            perform set_config('lock_timeout', greatest(1, extract(epoch from attempt) * 1000)::integer::text, true);
            if wanted = '{}' then
                lock table relaybox.outbox in access exclusive mode;
            else
                lock table relaybox.outbox in share row exclusive mode;
            end if;
            exit;
        exception when lock_not_available then
            if clock_timestamp() > ends then
                raise;
            end if;
        end;
        perform pg_sleep(extract(epoch from attempt));
    end loop;
    perform set_config('lock_timeout', extract(epoch from patience)::numeric * 1000 || 'ms', true);
    -- another init may have written it before this lock
    wanted := array(
        select t.topic from relaybox_internal.checked_topic t where t.outbox = 'refuse' order by t.topic collate "C"
    );
    if wanted = '{}' then
        drop trigger if exists refuse_payload on relaybox.outbox;
        told := told || 'the outbox checks no topic'::text;
    elsif relaybox_internal.payload_trigger_topics() is distinct from wanted then
        execute format(
            'create or replace trigger refuse_payload after insert on relaybox.outbox for each row '
            'when (new.topic = any(%L::pg_catalog.text[]) and new.xid = pg_catalog.pg_current_xact_id()) '
            'execute function relaybox_internal.refuse_payload(%s)',
            wanted, (select string_agg(quote_literal(w.topic), ', ' order by w.place) from unnest(wanted) with ordinality w (topic, place))
        );
        -- also in a session with session_replication_role = replica: such a session sends messages too
        alter table relaybox.outbox enable always trigger refuse_payload;
        told := told || format('the outbox checks %s', array_to_string(wanted, ', '));
    end if;
    foreach one in array unneeded loop
        execute format(
            'drop function if exists relaybox_internal.%I(%s)', one,
            case one
                when 'refuse_payload' then ''
                when 'payload_problem' then 'text, jsonb, text, bytea'
                else 'text'
            end
        );
        delete from relaybox_internal.check_function c where c.function_name = one;
        told := told || format('function relaybox_internal.%I dropped', one);
    end loop;
    return told;
end
$$;
