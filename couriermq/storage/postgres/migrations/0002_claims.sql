-- Who claims messages of a queue. Whoever opens a job gets a new epoch, and earlier ones are shut out. Claims up to
-- number `done` are over.
CREATE TABLE job (
    queue     INTEGER NOT NULL,
    name      TEXT COLLATE "C" NOT NULL,
    epoch     BIGINT NOT NULL,
    done      BIGINT NOT NULL,
    opened_at BIGINT NOT NULL,
    PRIMARY KEY (queue, name)
);

-- Messages that a job holds without end, under a number of its choice. The messages themselves are leased until
-- core.model.UNENDING; which they are stands in `claim_part`, in their order.
CREATE TABLE claim (
    queue      INTEGER NOT NULL,
    job        TEXT COLLATE "C" NOT NULL,
    number     BIGINT NOT NULL,
    wanted     BIGINT NOT NULL,    -- how many were asked for
    complete   BOOLEAN NOT NULL,   -- nothing is added any more
    fate       SMALLINT NOT NULL,  -- core.model.Fate: what happens to those that are still in it
    count      BIGINT NOT NULL,
    bytes      BIGINT NOT NULL,
    claimed_at BIGINT NOT NULL,
    PRIMARY KEY (queue, job, number)
);
CREATE INDEX claim_fate ON claim (queue, job, number) WHERE fate <> 0;

CREATE TABLE claim_part (
    queue  INTEGER NOT NULL,
    job    TEXT COLLATE "C" NOT NULL,
    number BIGINT NOT NULL,
    first  BIGINT NOT NULL,  -- the position of the first of its messages in the claim
    count  INTEGER NOT NULL,
    seqs   BYTEA NOT NULL,
    PRIMARY KEY (queue, job, number, first)
);

-- Messages that were brought but not yet sent, in chunks: see storage.staging.
CREATE TABLE stage (
    target    TEXT COLLATE "C" NOT NULL,  -- the id of a queue or an exchange
    name      TEXT COLLATE "C" NOT NULL,
    part      BIGINT NOT NULL,
    chunk     INTEGER NOT NULL,
    count     INTEGER NOT NULL,
    staged_at BIGINT NOT NULL,
    keys      BYTEA NOT NULL,  -- of the queues that they are for
    parcels   BYTEA NOT NULL,
    PRIMARY KEY (target, name, part, chunk)
);
ALTER TABLE stage ALTER COLUMN parcels SET STORAGE EXTERNAL;
CREATE INDEX stage_age ON stage (staged_at);

-- The newest publication of each series: it and all before it have happened.
CREATE TABLE publication (
    target       TEXT COLLATE "C" NOT NULL,
    series       TEXT COLLATE "C" NOT NULL,
    number       BIGINT NOT NULL,
    count        BIGINT NOT NULL,
    published_at BIGINT NOT NULL,
    PRIMARY KEY (target, series)
);
CREATE INDEX publication_age ON publication (published_at);
