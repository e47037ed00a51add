-- Says why a dead letter is not open: it is redriving, redriven, dropped, of another subscription,
-- or not in this store. Always raises RB037.
create or replace function relaybox_internal.refuse_dead_letter(dead_letter_id bigint)
returns void
language plpgsql stable
as $$
declare
    id bigint := refuse_dead_letter.dead_letter_id;
    letter record;
begin
    select d.state, d.resolved_at, d.resolved_by, s.subscription into letter
    from relaybox_internal.dead_letter d
    left join relaybox_internal.subscription s on s.subscription_id = d.subscription_id
    where d.dead_letter_id = id;
    raise exception using errcode = 'RB037',
        message = case letter.state
            when 'redriving'
                then format('dead letter %s is redriving: it waits for its consumer', id)
            when 'redriven'
                then format(
                    'dead letter %s is redriven: its consumer acknowledged it at %s',
                    id, letter.resolved_at
                )
            when 'dropped'
                then format(
                    'dead letter %s is dropped already: by %s at %s',
                    id, letter.resolved_by, letter.resolved_at
                )
            when 'open'
                then format('dead letter %s is of subscription %s', id, letter.subscription)
            when 'delayed'
                then format('delayed message %s is of subscription %s', id, letter.subscription)
            else format('there is no dead letter %s in this store', id)
        end,
        hint = 'See: relaybox dead-letters list';
end
$$;
