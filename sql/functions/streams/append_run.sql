-- Appends a run of positions of one log to a stream; a run that the last one leads up to makes that one longer.
create or replace function relaybox.append_run(here relaybox.stream, log_id integer, first_position_ bigint, last_position_ bigint) returns void
language plpgsql volatile
as $$
begin
    update relaybox.delivery d set last_place = d.last_place + last_position_ - first_position_ + 1, delivered_at = clock_timestamp()
    where d.stream_id = here.stream_id and d.last_place = here.last_place and d.hop_id = log_id and d.positions is null
        and d.first_position + d.last_place - d.first_place + 1 = first_position_;
    if not found then
        insert into relaybox.delivery (stream_id, first_place, last_place, hop_id, first_position)
        values (here.stream_id, here.last_place + 1, here.last_place + last_position_ - first_position_ + 1, log_id, first_position_);
    end if;
end
$$;
