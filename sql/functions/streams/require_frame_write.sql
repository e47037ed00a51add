-- Refuses an argument of a write of a DataFrame (RB036), a sender of another role (RB023), and work
-- that a crash could lose (RB003).
create or replace function relaybox_internal.require_frame_write(
    sender_ text, write_id_ text, run_ uuid, number integer, message_count_ bigint
)
returns void
language plpgsql volatile
as $$
begin
    if (
        sender_ ~ '^[A-Za-z0-9_.:-]{1,48}$' and octet_length(write_id_) between 1 and 400
        and run_ is not null and number >= 0 and message_count_ >= 0
    ) is not true then
        raise exception using errcode = 'RB036',
            message = 'a write of a DataFrame has a sender, a write_id of 1 to 400 bytes, a run, and '
                'numbers from 0';
    end if;
    perform relaybox_internal.require_sender_role(sender_);
    perform relaybox_internal.refuse_trigger() from pg_class o
    where o.oid = 'relaybox.outbox'::regclass and o.relrowsecurity;
    perform relaybox_internal.refuse_unlogged();
end
$$;
