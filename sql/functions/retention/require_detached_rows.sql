-- Refuses a copied table whose rows are not those of a detached segment: RB012.
create or replace function relaybox_internal.require_detached_rows(
    wanted relaybox_internal.detached_segment, staging regclass
)
returns void
language plpgsql stable
as $$
declare
    copied record;
begin
    select * into copied
    from relaybox_internal.log_digest(staging, wanted.first, wanted.last);
    if (copied.row_count, copied.hash_sum) <> (wanted.row_count, wanted.hash_sum) then
        raise exception using errcode = 'RB012',
            message = format(
                'log of %s: %s has %s rows with hash sum %s, '
                || 'detached were %s rows with hash sum %s',
                (select i.hop from relaybox_internal.hop_in i where i.log_id = wanted.log_id),
                wanted.directory, copied.row_count, copied.hash_sum,
                wanted.row_count, wanted.hash_sum
            ),
            hint = 'Its files were changed or removed. Nothing was attached. '
                || 'Bring the files back from a backup, then attach again.';
    end if;
end
$$;
