-- The reader that needs a row of a segment of the outbox (log_id_ null) or of a log, and the first
-- row that it needs; holder is null: none does. Of the outbox also rows that no hop has moved, and
-- rows that the ledgers do not account for (G12): these are never dropped, whatever the watermarks
-- say. account: see outbox_account(). Locks nothing: hops are planned meanwhile.
create or replace function relaybox_internal.segment_needed_by(
    log_id_ integer, first_ bigint, last_ bigint, without_detachable boolean,
    out holder text, out needs_from bigint, out account jsonb
)
language plpgsql stable
as $$
declare
    broken jsonb;
begin
    select format('%s %s', h.kind, h.holder), h.needs_from into holder, needs_from
    from relaybox_internal.holders(log_id_) h
    where h.needs_from <= last_ and not (without_detachable and h.detachable)
    order by h.needs_from, h.kind
    limit 1;
    if found or log_id_ is not null then
        return;
    end if;
    account := relaybox_internal.outbox_account(first_ - 1, last_);
    broken := jsonb_path_query_first(
        account,
        '$[*] ? (@.missing_count > 0 || @.doubled_count > 0'
        ' || @.waiting_count > 0 || @.planned_count > 0)'
    );
    if broken is not null then
        holder := format(
            'hop %s: of %s messages of topic %s %s are in no batch, %s in two, %s wait, '
            '%s are not confirmed; see: relaybox verify %s',
            broken ->> 'hop', broken ->> 'committed_count', broken ->> 'topic',
            broken ->> 'missing_count', broken ->> 'doubled_count', broken ->> 'waiting_count',
            broken ->> 'planned_count', split_part(broken ->> 'hop', '/', 1)
        );
        return;
    end if;
    needs_from := relaybox_internal.unmoved_seq(first_ - 1, last_);
    if needs_from is not null then
        select format('unrouted topic %s', o.topic) into holder
        from relaybox_internal.sent_rows o where o.seq = needs_from;
    end if;
end
$$;
