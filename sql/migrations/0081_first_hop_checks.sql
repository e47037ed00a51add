-- pre: adds tables and columns
-- Messages may be checked by their schemas where they arrive first.

alter table relaybox_internal.checked_topic add column first_hop text not null default 'none';
alter table relaybox_internal.checked_topic
add constraint first_hop_check_is_known check (first_hop in ('none', 'warn', 'set_aside'));
comment on column relaybox_internal.checked_topic.first_hop is
'warn: a message that does not conform when it arrives is noted. set_aside: it is not delivered.';

alter table relaybox_internal.arrival add column set_aside_count bigint;
comment on column relaybox_internal.arrival.set_aside_count is
'How many of its messages do not conform to their schema and are not to be delivered. Null: none.';

create table relaybox_internal.hop_check (
    log_id integer not null,
    topic text not null,
    rule text not null,
    constraint hop_check_pkey primary key (log_id, topic),
    constraint hop_check_of_a_hop foreign key (log_id) references relaybox_internal.hop_in (log_id),
    constraint hop_check_is_known check (rule in ('warn', 'set_aside'))
);
comment on table relaybox_internal.hop_check is
'Topics whose messages are checked by their schemas when they arrive in a log. Init writes it.';

create table relaybox_internal.nonconforming_message (
    log_id integer not null,
    log_position bigint not null,
    topic text not null,
    is_set_aside boolean not null,
    problem text not null,
    found_at timestamptz not null default clock_timestamp(),
    constraint nonconforming_message_pkey primary key (log_id, log_position),
    constraint nonconforming_message_of_a_hop foreign key (log_id)
    references relaybox_internal.hop_in (log_id)
);
comment on table relaybox_internal.nonconforming_message is
'Messages that did not conform to the schema of their topic when they arrived at the first store of '
'their route. Later stores get a copy of those that are set aside.';
comment on column relaybox_internal.nonconforming_message.is_set_aside is
'No stream delivers it. False: it was noted only.';
