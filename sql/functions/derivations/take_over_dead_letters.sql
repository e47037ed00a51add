-- Gives the unresolved dead letters of a version of a derivation to the next version, so that they
-- can be redriven. Those from its first stream position on it derives from anyway: they are dropped.
-- redriving_: which of them were being redriven when the version before ended, and still are.
create or replace function relaybox_internal.take_over_dead_letters(
    of_subscription integer, to_subscription integer, first_stream_position_ bigint, redriving_ bigint[],
    by_whom text
)
returns void
language plpgsql volatile
as $$
declare
    taken_by relaybox_internal.subscription;
begin
    update relaybox_internal.dead_letter d set
        state = 'dropped', resolved_at = clock_timestamp(), resolved_by = session_user,
        resolved_reason = by_whom || ' derives from it again'
    where d.subscription_id = of_subscription and d.state in ('open', 'redriving')
        and d.stream_position >= first_stream_position_;
    update relaybox_internal.dead_letter d set
        subscription_id = to_subscription,
        state = case when d.dead_letter_id = any(redriving_) then 'redriving' else d.state end
    where d.subscription_id = of_subscription and d.state in ('open', 'redriving');
    if found then
        select * into strict taken_by from relaybox_internal.subscription s
        where s.subscription_id = to_subscription;
        perform relaybox_internal.update_dead_letter_lanes(taken_by, array[1]);
    end if;
end
$$;
