-- Makes the temporary table of the senders of the batch that this session published last, or
-- empties it. deliver_next() reads it.
create or replace function relaybox_internal.make_published_sender() returns void
language plpgsql volatile
as $$
begin
    if to_regclass('pg_temp.published_sender') is null then
        create temporary table published_sender (
            log_id integer, batch bigint, sender text, epoch integer, row_count bigint,
            first_index bigint, last_index bigint,
            ascending boolean, first_sent_at timestamptz
        ) on commit preserve rows;
    else
        truncate pg_temp.published_sender;
    end if;
end
$$;
