-- pre: adds only
-- A pass of a cursor gives each message once, also one that was set aside and redriven before the cursor came to its place.

alter table relaybox.dead_letter add column given_ahead boolean not null default false;
comment on column relaybox.dead_letter.given_ahead is
'redriven and acknowledged before the cursor of its lane came to its place: this pass of the cursor does not give it again';

update relaybox.dead_letter d set given_ahead = true
where d.state = 'redriven' and d.place > (
    select greatest(c.done_place, c.replay_place) from relaybox.cursor c
    where c.subscription_id = d.subscription_id and c.lane = d.lane
    order by c.version desc
    limit 1
);
