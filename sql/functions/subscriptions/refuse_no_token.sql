-- Says why an ack, nack or release needs a token: this transaction has fetched from no lane, or
-- from several. call_hint: the call with a token. Always raises RB033.
create or replace function relaybox_internal.refuse_no_token(
    subscription_ relaybox_internal.subscription, fetched_lanes_ integer[], call_hint text
)
returns void
language plpgsql stable
as $$
begin
    raise exception using errcode = 'RB033',
        message = format(
            'subscription %s: the token is missing, and this transaction has fetched %s',
            subscription_.subscription,
            case
                when fetched_lanes_ = '{}'
                    then 'nothing (a fetch that returns no row counts as none)'
                else 'from lanes ' || array_to_string(trim_array(fetched_lanes_, 1), ', ')
                    || ' and ' || fetched_lanes_[cardinality(fetched_lanes_)]
            end
        ),
        hint = relaybox_internal.name_fetches(subscription_)
            || 'Fetch, work and acknowledge in one transaction; or give fetch a worker => name '
            || 'of your process, and here the token that fetch returned with each message, '
            || format('from any session: %s', call_hint);
end
$$;
