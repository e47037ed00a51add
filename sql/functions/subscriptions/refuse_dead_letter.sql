-- Says why a dead letter is not open for what was asked: it is redriving, redriven or dropped, of
-- another subscription, or not here. Always raises RB037.
create or replace function relaybox_internal.refuse_dead_letter(dead_letter_id bigint) returns void
language plpgsql stable
as $$
declare
    found_ record;
begin
    select d.state, d.resolved_at, d.resolved_by, s.subscription into found_
    from relaybox_internal.dead_letter d
    left join relaybox_internal.subscription s on s.subscription_id = d.subscription_id
    where d.dead_letter_id = refuse_dead_letter.dead_letter_id;
    raise exception using errcode = 'RB037',
        message = case found_.state
            when 'redriving' then format('dead letter %s is redriving: it waits for its consumer', refuse_dead_letter.dead_letter_id)
            when 'redriven' then format('dead letter %s is redriven: its consumer acknowledged it at %s', refuse_dead_letter.dead_letter_id,
            found_.resolved_at)
            when 'dropped' then format('dead letter %s is dropped already: by %s at %s', refuse_dead_letter.dead_letter_id, found_.resolved_by,
            found_.resolved_at)
            when 'open' then format('dead letter %s is of subscription %s', refuse_dead_letter.dead_letter_id, found_.subscription)
            else format('there is no dead letter %s in this store', refuse_dead_letter.dead_letter_id)
        end,
        hint = 'See: relaybox dead-letters list';
end
$$;
