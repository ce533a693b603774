-- One row for each run of a named hook: narrow, and they stay. The event is known by its id, because
-- its number is known only once it is settled; a hook runs on an event once.
CREATE TABLE runs (
    event_id BLOB NOT NULL,
    hook TEXT NOT NULL,
    event TEXT NOT NULL,
    session_id TEXT,
    agent_id TEXT,
    at INTEGER NOT NULL,
    took_us INTEGER NOT NULL,
    exit INTEGER,
    outcome TEXT NOT NULL,
    decision TEXT,
    said INTEGER NOT NULL,
    note TEXT,
    PRIMARY KEY (event_id, hook)
) STRICT, WITHOUT ROWID;
CREATE INDEX runs_at ON runs (at);
CREATE INDEX runs_hook ON runs (hook, at);
CREATE INDEX runs_session ON runs (session_id, at);

-- Why an event did not come by the daemon, in the words of whoever answered it.
ALTER TABLE events ADD COLUMN detour TEXT;
