-- Gives a copied table the name of its segment and makes it a partition of its log again. Its check
-- constraint saves the scan. Caller holds the log.
create or replace function relaybox_internal.attach_segment(
    wanted relaybox_internal.detached_segment, staging text
)
returns void
language plpgsql volatile
as $$
begin
    execute format('alter table relaybox_internal.%I rename to %I', staging, wanted.segment);
    execute format(
        'alter index relaybox_internal.%I rename to %I',
        staging || '_pkey', wanted.segment || '_pkey'
    );
    execute format(
        'alter table relaybox_internal.log_%s attach partition relaybox_internal.%I
            for values from (%s) to (%s)',
        wanted.log_id, wanted.segment, wanted.first, wanted.last + 1
    );
    execute format(
        'alter table relaybox_internal.%I drop constraint rows_of_the_segment', wanted.segment
    );
    -- a segment that was made by ensure_log_segments() has the same rights
    execute format('revoke insert on relaybox_internal.%I from relaybox_driver', wanted.segment);
end
$$;
