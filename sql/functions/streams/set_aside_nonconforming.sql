-- Sets aside the classified messages that do not conform to their schema, unless another rule has
-- refused them. Their index is resolved: the sender's later messages do not wait for it. They are
-- never held: what arrives before its turn is set aside at once.
create or replace function relaybox_internal.set_aside_nonconforming() returns void
language plpgsql volatile
as $$
begin
    if not exists (select from relaybox_internal.nonconforming_message n where n.is_set_aside) then
        return;
    end if;
    update pg_temp.classified j set outcome = 'does_not_conform'
    from relaybox_internal.nonconforming_message n
    where n.log_id = j.log_id and n.log_position = j.log_position and n.is_set_aside
        and j.outcome is null and j.is_new;
end
$$;
