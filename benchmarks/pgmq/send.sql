SELECT pgmq.send('orders', '{"body": "BODY"}'::jsonb);
