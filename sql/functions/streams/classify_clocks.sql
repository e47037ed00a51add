-- Causal order: a message waits for its sender's earlier ones (classify_rows) and for all that its clock says was delivered to the
-- sender. Sets release_seq and release_rank of the classified messages; sets aside
-- what can't be waited for.
-- The cost grows with the entries of the clocks, however long the chains of causes are: each is looked up once, and followed once.
create or replace function relaybox.classify_clocks(stream_ relaybox.stream) returns void
language plpgsql volatile
set work_mem = '128MB'
set jit = off
as $$
begin
    perform relaybox.read_clocks(stream_);
    perform relaybox.find_causes(stream_);
    perform relaybox.spread_times();
    while relaybox.rank_clocked() loop
        exit when not relaybox.set_aside_cycles();
    end loop;
    update pg_temp.classified j set release_seq = nullif(c.release_seq, 9223372036854775807), release_rank = c.release_rank, outcome = c.outcome
    from pg_temp.causal_message c where j.is_indexed and j.arrival_seq = c.arrival_seq;
end
$$;
