SELECT coalesce(array_agg(msg_id), '{}') AS ids FROM pgmq.read('orders', 3600, LIMIT) \gset
SELECT pgmq.delete('orders', (:ids)::bigint[]);
