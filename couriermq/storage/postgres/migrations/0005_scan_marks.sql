-- As before, from the instant `since` on. The function without it stays for nodes that do not know this one.
CREATE FUNCTION ready_packs(key INTEGER, since BIGINT, upto BIGINT, most BIGINT) RETURNS SETOF pack
LANGUAGE plpgsql AS $$
DECLARE
    line CURSOR FOR
        SELECT * FROM pack WHERE queue = key AND state = 1 AND due_at BETWEEN since AND upto ORDER BY due_at, last
        FOR UPDATE SKIP LOCKED;
    next pack;
    got BIGINT := 0;
BEGIN
    OPEN line;
    WHILE got < most LOOP
        FETCH line INTO next;
        EXIT WHEN NOT FOUND;
        got := got + next.remaining;
        RETURN NEXT next;
    END LOOP;
    CLOSE line;
END $$;
