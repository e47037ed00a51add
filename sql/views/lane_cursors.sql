-- Where each lane of each subscription stands: of its cursor, the newest version.
create or replace view relaybox.lane_cursors as
select newest.*
from relaybox.lane l
cross join lateral (
    select c.* from relaybox.cursor c
    where c.subscription_id = l.subscription_id and c.lane = l.lane
    order by c.version desc
    limit 1
) newest;
