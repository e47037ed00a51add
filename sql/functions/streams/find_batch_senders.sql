-- Fills pg_temp.decision_sender with the senders of a batch. Takes the counts that publish_batch()
-- made in this session, else counts them now.
create or replace function relaybox_internal.find_batch_senders(
    log_id_ integer, batch_ bigint, first_position bigint, last_position bigint
)
returns void
language plpgsql volatile
as $$
begin
    if to_regclass('pg_temp.published_sender') is not null then
        insert into pg_temp.decision_sender (
            sender, epoch, first_index, last_index, is_ascending, first_sent_at
        )
        select p.sender, p.epoch, p.first_index, p.last_index, p.ascending, p.first_sent_at
        from pg_temp.published_sender p where p.log_id = log_id_ and p.batch = batch_;
    end if;
    if last_position >= first_position and not exists (select from pg_temp.decision_sender) then
        insert into pg_temp.decision_sender (
            sender, epoch, first_index, last_index, is_ascending, first_sent_at
        )
        select c.sender, c.epoch, c.first_index, c.last_index, c.ascending, c.first_sent_at
        from relaybox_internal.count_senders(log_id_, first_position, last_position) c;
    end if;
end
$$;
