-- Declares that a producer numbers the messages of a sender itself: gapless (1, 2, 3 ... each once)
-- or sparse (any order, repeats possible). Returns the sender's epoch. The same declaration again
-- changes nothing. Durable before another session can see it. Raises RB021 (refused: another kind
-- than before, or no such kind), RB023 (a sender of another role).
create or replace function relaybox.declare_sender(sender text, kind text) returns integer
language plpgsql volatile security definer
set search_path = pg_catalog, relaybox, pg_temp
set row_security = off
as $$
declare
    own_origin text := (select s.store from relaybox_internal.store s);
    declared relaybox_internal.sender;
begin
    set local synchronous_commit = on;
    perform relaybox_internal.require_sender_role(declare_sender.sender);
    perform relaybox_internal.refuse_trigger() from pg_class o
    where o.oid = 'relaybox.outbox'::regclass and o.relrowsecurity;
    perform relaybox_internal.require_sender_kind(declare_sender.sender, declare_sender.kind);
    insert into relaybox_internal.sender (origin, sender, epoch, kind)
    select own_origin, declare_sender.sender, 1, declare_sender.kind
    where not exists (
        select from relaybox_internal.sender s
        where s.origin = own_origin and s.sender = declare_sender.sender
    )
    on conflict do nothing;
    insert into relaybox_internal.sender_counter (sender, epoch)
    values (declare_sender.sender, 1)
    on conflict do nothing;
    select s.* into declared from relaybox_internal.sender s
    where s.origin = own_origin and s.sender = declare_sender.sender
    order by s.epoch desc
    limit 1;
    if declared.kind <> declare_sender.kind then
        raise exception using errcode = 'RB021',
            message = format(
                'sender %s is %s here since epoch %s, not %s', declared.sender, declared.kind,
                declared.epoch, declare_sender.kind
            ),
            hint = format(
                'Another kind is a new epoch: select relaybox.new_epoch(%L, %L)', declared.sender,
                declare_sender.kind
            );
    end if;
    return declared.epoch;
end
$$;

comment on function relaybox.declare_sender(text, text) is
'Declares that a sender numbers its messages itself. To declare the same again changes nothing.
`sender`: its name, 1 to 48 of A-Z a-z 0-9 _ . : -
`kind`: gapless (1, 2, 3 ... each once) or sparse (any numbers, also repeated).
Returns the sender''s epoch, which its messages carry. The declaration is on disk before any other
session can see it.
Errors: RB021 (declared with another kind, or no such kind), RB023 (the sender is bound to another
role).';
