-- Judges a range of a log as far as it needs it: which senders bring it in order, and of the others every row.
create or replace function relaybox.judge_batch(
    here relaybox.stream, input relaybox.stream_log, batch_ bigint, first_position bigint, last_position bigint
)
returns void
language plpgsql volatile
as $$
declare
    reads_from bigint;
begin
    perform relaybox.make_delivery_tables();
    if to_regclass('pg_temp.published_sender') is not null then
        insert into pg_temp.batch_sender (sender, epoch, first_index, last_index, ascending, first_sent_at)
        select p.sender, p.epoch, p.first_index, p.last_index, p.ascending, p.first_sent_at
        from pg_temp.published_sender p where p.hop_id = input.hop_id and p.batch = batch_;
    end if;
    if last_position >= first_position and not exists (select from pg_temp.batch_sender) then
        insert into pg_temp.batch_sender (sender, epoch, first_index, last_index, ascending, first_sent_at)
        select c.sender, c.epoch, c.first_index, c.last_index, c.ascending, c.first_sent_at
        from relaybox.count_senders(input.hop_id, first_position, last_position) c;
    end if;
    perform relaybox.take_up_stalled(here, input, first_position);
    perform relaybox.judge_batch_senders(here, input);
    select coalesce(min(b.reads_after) + 1, first_position) into reads_from from pg_temp.batch_sender b;
    if here.message_id_window > 0 then
        perform relaybox.find_repeated_ids(input.hop_id, reads_from, last_position, here.message_id_window);
    end if;
    with begun as (
        insert into relaybox.sender_state (stream_id, sender, epoch, origin, kind)
        select here.stream_id, b.sender, b.epoch, input.origin, b.kind from pg_temp.batch_sender b
        where b.sender_id is null and b.kind is not null and b.epoch > 0 and not b.of_another_store
        -- of another store's sender of this name nothing was accepted, so that it is none of the stream's
        on conflict (stream_id, sender, epoch) do update set origin = excluded.origin, kind = excluded.kind
        returning sender_id, sender, epoch, watermark
    )
    update pg_temp.batch_sender b set sender_id = n.sender_id, watermark = n.watermark
    from begun n where n.sender = b.sender and n.epoch = b.epoch;
    if not here.recheck and not exists (select from pg_temp.batch_sender where not in_order) then
        return;
    end if;
    if here.delivery_order in ('none', 'total') then
        insert into pg_temp.seen_again (sender_id, chunk, indexes)
        select i.sender_id, i.chunk, i.indexes * n.indexes
        from (
            select b.sender_id, l.index >> 12 as chunk, range_agg(int8range(l.index, l.index + 1)) as indexes
            from pg_temp.batch_sender b
            join relaybox.sender_state s on s.sender_id = b.sender_id and s.seen_beyond > 0
            join relaybox.log l on l.hop_id = input.hop_id and l.position >= reads_from and l.position <= last_position
                and l.sender = b.sender and l.epoch = b.epoch
            where not b.in_order and not b.waits
            group by b.sender_id, l.index >> 12
        ) i
        join relaybox.seen n on n.sender_id = i.sender_id and n.chunk = i.chunk and n.indexes && i.indexes;
    end if;
    perform relaybox.judge_rows(here, input, first_position, last_position);
    if here.delivery_order = 'causal' then
        perform relaybox.judge_clocks(here);
    end if;
    perform relaybox.judge_duplicates(first_position);
end
$$;
