SELECT pgmq.send_batch('orders', (:messages)::jsonb[]);
