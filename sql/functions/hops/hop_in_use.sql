-- Says why a hop that leaves this store counts as in use (told), and how it stops to be (next_step). Both are null
-- of a hop that is retired, and of one that an init has removed, that no driver has moved since and none is
-- connected for: it may copy a batch for long that it began before. That is seen from numbers of attempts and not
-- from times: a clock may have been set.
create or replace function relaybox_internal.hop_in_use(
    hop_ relaybox_internal.hop_out, out told text, out next_step text
)
language plpgsql stable
as $$
declare
    pattern constant text := 'YYYY-MM-DD HH24:MI:SS UTC';
    init constant text := format(
        'run: relaybox init %s', (select s.store from relaybox_internal.store s)
    );
    newest record;
begin
    if hop_.retired_at is not null then
        return;
    elsif hop_.removed_at is null and hop_.in_file_at is null then
        told := 'no init has recorded yet whether relaybox.yaml has it';
        next_step := 'With the newest relaybox.yaml, ' || init;
    elsif hop_.removed_at is null then
        told := format(
            'the relaybox.yaml of the init of %s by %s has it',
            to_char(hop_.in_file_at at time zone 'UTC', pattern), hop_.in_file_by
        );
        next_step := 'If this relaybox.yaml is older, update it. '
            'If the hop is to go, ' || init || ', and then relaybox retire again';
    elsif hop_.attempt > hop_.removed_attempt then
        select to_char(a.began_at at time zone 'UTC', pattern) as began_at, a.recorded_by into newest
        from relaybox_internal.attempt a
        where a.hop = hop_.hop and a.attempt = hop_.attempt
        order by a.batch desc limit 1;
        told := format(
            'the init of %s by %s removed it, and a driver has moved it since (attempt %s, %s by %s)',
            to_char(hop_.removed_at at time zone 'UTC', pattern), hop_.removed_by, hop_.attempt,
            coalesce(newest.began_at, 'unknown time'), coalesce(newest.recorded_by, 'unknown')
        );
        next_step := 'If the relaybox.yaml of that driver is newer than this one, update this one and ' || init
            || '. Else update that of the driver, ' || init || ', and then relaybox retire again';
    elsif relaybox_internal.hop_is_driven(hop_.hop) then
        told := format(
            'the init of %s by %s removed it, and a driver that began before is connected and moves it',
            to_char(hop_.removed_at at time zone 'UTC', pattern), hop_.removed_by
        );
        next_step := 'If the relaybox.yaml of that driver is newer than this one, update this one and ' || init
            || '. Else let the driver end, or end it, and then relaybox retire again';
    end if;
end
$$;
