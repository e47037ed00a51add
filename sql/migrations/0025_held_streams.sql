-- pre: adds only
-- An init that changes the rules of a stream in several stores: nothing is decided by either rules before it has ended.

alter table relaybox.stream add column rules_pending boolean not null default false;

comment on column relaybox.stream.rules_pending is 'an init that changes the rules of the stream in all its stores began and has not ended here';
