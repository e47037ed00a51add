-- The name of a second cursor of a subscription: with a number as replay() gives it, without one as
-- the DAGs of Airflow do. Of this subscription alone, and at most 60 characters. The same as
-- second_cursor() in plugins/relaybox/subscriptions/replays.py.
create or replace function relaybox_internal.second_cursor_name(
    subscription text, number bigint default null
)
returns text
language sql immutable parallel safe
as $$
    select case
        when length(subscription) <= 44 then subscription
        -- 44 characters
        else left(subscription, 35) || '-'
            || left(encode(sha256(convert_to(subscription, 'UTF8')), 'hex'), 8)
    end || '.replay' || coalesce('-' || number::text, '')
$$;
