-- One digest per 10,000 stream positions of a range of a stream. Two stores with equal digests have
-- the same log positions at the same stream positions.
create or replace function relaybox_internal.stream_digests(
    stream_name text, first_stream_position bigint, through_stream_position bigint
)
returns table (block bigint, digest text)
language sql stable
set work_mem = '256MB'
set jit = off
as $$
    select (p.stream_position - 1) / 10000,
        md5(string_agg(p.stream_position || ':' || p.log_position, ',' order by p.stream_position))
    from relaybox_internal.stream s
    cross join lateral relaybox_internal.list_stream_positions(
        s.stream_id, through_stream_position
    ) p
    where s.stream = stream_name and p.stream_position >= first_stream_position
    group by 1
$$;
