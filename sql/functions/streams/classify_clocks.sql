-- Causal order: a message waits for its sender's earlier ones (classify_rows) and for every message
-- that its clock names. Sets release_seq and release_rank of the classified messages. Sets aside
-- those that wait for themselves. The cost grows with the entries of the clocks and not with the
-- length of chains of causes: each cause is looked up once and followed once.
create or replace function relaybox_internal.classify_clocks(stream_ relaybox_internal.stream)
returns void
language plpgsql volatile
set work_mem = '128MB'
set jit = off
as $$
begin
    perform relaybox_internal.read_clocks(stream_);
    perform relaybox_internal.find_causes(stream_);
    perform relaybox_internal.spread_times();
    while relaybox_internal.rank_clocked() loop
        exit when not relaybox_internal.set_aside_cycles();
    end loop;
    update pg_temp.classified j
    set release_seq = nullif(c.release_seq, 9223372036854775807), release_rank = c.release_rank,
        outcome = c.outcome
    from pg_temp.causal_message c where j.is_indexed and j.arrival_seq = c.arrival_seq;
end
$$;
