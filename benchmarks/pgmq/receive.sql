SELECT coalesce(array_agg(msg_id), '{}') AS ids, array_agg(message) AS messages FROM pgmq.read('orders', 3600, :limit) \gset
SELECT pgmq.delete('orders', (:ids)::bigint[]);
