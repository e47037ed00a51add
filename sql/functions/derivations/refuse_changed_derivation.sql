-- Refuses to go on with a derivation whose newest version is another one, reads another stream, or
-- has (if refuse_change) another source under the same version: RB025.
create or replace function relaybox_internal.refuse_changed_derivation(
    newest relaybox_internal.derivation, version_ integer, stream_ text, source_name_ text,
    source_digest_ text, refuse_change boolean
)
returns void
language plpgsql volatile
as $$
declare
    reads text := (
        select t.stream from relaybox_internal.subscription s
        join relaybox_internal.stream t on t.stream_id = s.stream_id
        where s.subscription_id = newest.subscription_id
    );
begin
    if newest.version > version_ then
        raise exception using errcode = 'RB025',
            message = format(
                'the derivation of route %s is at version %s since %s, relaybox.yaml says version '
                '%s', newest.route, newest.version, newest.begun_at, version_
            ),
            hint = format(
                'Use the file that says version %s. To go back to what version %s did, give it '
                'version %s.', newest.version, version_, newest.version + 1
            );
    end if;
    if reads <> stream_ then
        raise exception using errcode = 'RB025',
            message = format(
                'version %s of the derivation of route %s reads stream %s, relaybox.yaml says %s',
                version_, newest.route, reads, stream_
            ),
            hint = format(
                'Give the derivation version %s and the key start in relaybox.yaml.', version_ + 1
            );
    end if;
    if refuse_change and (newest.source_name, newest.source_digest)
        is distinct from (source_name_, source_digest_)
    then
        raise exception using errcode = 'RB025',
            message = format(
                'version %s of the derivation of route %s is %s with digest %s since %s; now it is '
                '%s with digest %s', version_, newest.route, newest.source_name,
                left(newest.source_digest, 12), newest.begun_at, source_name_,
                left(source_digest_, 12)
            ),
            hint = format(
                'Nothing was derived. Give the derivation version %s in relaybox.yaml, or '
                'changed_source: warn if the messages stay the same.', version_ + 1
            );
    end if;
end
$$;
