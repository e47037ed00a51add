-- Returns the epoch that a sender's messages have to carry: its newest one. After next_index() it
-- cannot change until the transaction ends. Raises RB022 if the sender is not declared in this
-- store: its messages carry no epoch.
create or replace function relaybox.sender_epoch(sender text) returns integer
language plpgsql volatile security definer
set search_path = pg_catalog, relaybox, pg_temp
set row_security = off
as $$
declare
    newest integer := (
        select c.epoch from relaybox_internal.sender_counter c where c.sender = sender_epoch.sender
    );
begin
    if newest is null then
        raise exception using errcode = 'RB022',
            message = format('sender %s is not declared in this store', sender_epoch.sender),
            hint = format(
                'Declare it: select relaybox.declare_sender(%L, ''gapless'')', sender_epoch.sender
            );
    end if;
    return newest;
end
$$;

comment on function relaybox.sender_epoch(text) is
'Returns the newest epoch of a declared sender: the value for column `epoch` of relaybox.outbox.
`sender`: its name.
After next_index() it cannot change until the transaction ends.
Errors: RB022 (not declared in this store: its messages carry no epoch).';
