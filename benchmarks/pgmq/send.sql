SELECT pgmq.send('orders', (:message)::jsonb);
