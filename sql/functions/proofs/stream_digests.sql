-- One digest per 10,000 places of a range of a stream: equal in two stores whose streams have the same positions at the same places.
create or replace function relaybox.stream_digests(stream_name text, first_place bigint, through_place bigint)
returns table (block bigint, digest text)
language sql stable
set work_mem = '256MB'
set jit = off
as $$
    select (p.place - 1) / 10000, md5(string_agg(p.place || ':' || p.position, ',' order by p.place))
    from relaybox.stream s cross join lateral relaybox.stream_places(s.stream_id, through_place) p
    where s.stream = stream_name and p.place >= first_place
    group by 1
$$;
