-- Who claims messages of a queue. Whoever opens a job gets a new epoch, and earlier ones are shut out. Claims up to
-- number `done` are over.
CREATE TABLE job (
    queue     INTEGER NOT NULL,
    name      TEXT NOT NULL,
    epoch     INTEGER NOT NULL,
    done      INTEGER NOT NULL,
    opened_at INTEGER NOT NULL,
    PRIMARY KEY (queue, name)
) WITHOUT ROWID;

-- Messages that a job holds without end, under a number of its choice. The messages themselves are leased until
-- core.model.UNENDING; which they are stands in `claim_part`, in their order.
CREATE TABLE claim (
    queue      INTEGER NOT NULL,
    job        TEXT NOT NULL,
    number     INTEGER NOT NULL,
    wanted     INTEGER NOT NULL,  -- how many were asked for
    complete   INTEGER NOT NULL,  -- 1: nothing is added any more
    fate       INTEGER NOT NULL,  -- core.model.Fate: what happens to those that are still in it
    count      INTEGER NOT NULL,
    bytes      INTEGER NOT NULL,
    claimed_at INTEGER NOT NULL,
    PRIMARY KEY (queue, job, number)
) WITHOUT ROWID;
CREATE INDEX claim_fate ON claim (fate) WHERE fate <> 0;

CREATE TABLE claim_part (
    queue  INTEGER NOT NULL,
    job    TEXT NOT NULL,
    number INTEGER NOT NULL,
    first  INTEGER NOT NULL,  -- the position of the first of its messages in the claim
    count  INTEGER NOT NULL,
    seqs   BLOB NOT NULL,
    PRIMARY KEY (queue, job, number, first)
);

-- Messages that were brought but not yet sent, in chunks: see storage.staging. What is looked at often stands first.
CREATE TABLE stage (
    target    TEXT NOT NULL,  -- the id of a queue or an exchange
    name      TEXT NOT NULL,
    part      INTEGER NOT NULL,
    chunk     INTEGER NOT NULL,
    count     INTEGER NOT NULL,
    staged_at INTEGER NOT NULL,
    keys      BLOB NOT NULL,  -- of the queues that they are for
    parcels   BLOB NOT NULL
);
CREATE UNIQUE INDEX stage_name ON stage (target, name, part, chunk);
CREATE INDEX stage_age ON stage (staged_at);

-- The newest publication of each series: it and all before it have happened.
CREATE TABLE publication (
    target       TEXT NOT NULL,
    series       TEXT NOT NULL,
    number       INTEGER NOT NULL,
    count        INTEGER NOT NULL,
    published_at INTEGER NOT NULL,
    PRIMARY KEY (target, series)
) WITHOUT ROWID;
CREATE INDEX publication_age ON publication (published_at);

-- Stages that were published and whose messages are on their way into their queues.
CREATE TABLE landing (
    id           INTEGER PRIMARY KEY,
    target       TEXT NOT NULL,
    name         TEXT NOT NULL,
    published_at INTEGER NOT NULL,
    principal    TEXT NOT NULL,
    keys         BLOB NOT NULL
);
CREATE UNIQUE INDEX landing_name ON landing (target, name);
