-- pre: adds only
-- How far a sender was when it stalled. In causal order others may let go what it holds without emptying its holdback; then what comes
-- next of it may be among its messages that wait in the log.
alter table relaybox.sender_state add column stalled_watermark bigint;
