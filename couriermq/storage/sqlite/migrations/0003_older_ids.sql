-- Ids are minted in another way from here on. Those of messages that wait already are found like the senders' own.
UPDATE message SET given = 1;
