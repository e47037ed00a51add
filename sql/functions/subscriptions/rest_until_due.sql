-- How many seconds a worker that found nothing need not look: until a message is due. Null: none is to
-- come. A little longer than that, since its clock runs by itself. The message that came due since it
-- looked is looked for soon; after a second an open transaction holds the lane.
create or replace function relaybox_internal.rest_until_due(due_at timestamptz)
returns double precision
language sql volatile
as $$
    select case
        when due_at > clock_timestamp()
            then extract(epoch from due_at - clock_timestamp()) + 0.001
        when due_at > clock_timestamp() - interval '1 second' then 0.02
        when due_at is not null then 1
    end
$$;
