-- For how many seconds a reader that is `behind` messages behind has kept a whole segment or more:
-- 0 if it keeps less than a segment.
create or replace function relaybox_internal.held_seconds(behind bigint, since timestamptz)
returns double precision
language sql stable
as $$
    select case
        when behind >= (select s.segment_rows from relaybox_internal.store s)
            then relaybox_internal.age_seconds(since)
        else 0
    end
$$;
