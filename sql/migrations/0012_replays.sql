-- pre: adds only
-- Ranges that second cursors read one after the other: what backfills and people asked for.

create table relaybox.replay_range (
    replay_range_id bigint generated always as identity primary key,
    subscription_id integer not null references relaybox.subscription (subscription_id),
    first_place bigint not null,
    last_place bigint not null,
    asked_by text[] not null,
    reason text not null,
    begun_at timestamptz not null default clock_timestamp(),
    done_at timestamptz,
    constraint replay_range_not_empty check (last_place >= first_place and first_place >= 1),
    constraint somebody_asked_for_it check (cardinality(asked_by) >= 1)
);

comment on column relaybox.replay_range.subscription_id is 'the second cursor';
comment on column relaybox.replay_range.asked_by is 'whoever asked for it, and those who joined: a run of Airflow, how often it was cleared';
comment on column relaybox.replay_range.done_at is 'written when the cursor''s next range begins; of the newest range its lanes tell';

-- Serves "what does this cursor read now" and "was this read for me".
create index replay_range_of_a_cursor on relaybox.replay_range (subscription_id, replay_range_id);
