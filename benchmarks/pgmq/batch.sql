SELECT pgmq.send_batch('orders', array_fill('{"body": "BODY"}'::jsonb, ARRAY[100]));
