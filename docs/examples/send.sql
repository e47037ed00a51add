-- Order and message are one transaction: psql -v order=7 -f send.sql "$SHOP_URL"
\set ON_ERROR_STOP on
begin;
insert into shop_order (id) values (:order);
insert into relaybox.outbox (topic, sender, payload)
values ('orders', 'shop', json_build_object('order', :order)::text)
returning message_id;
commit;
