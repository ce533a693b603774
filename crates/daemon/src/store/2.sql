-- One row a session: all that a daemon knows of it, so that the next one goes on where it ended.
CREATE TABLE sessions (
    session_id TEXT PRIMARY KEY,
    revision INTEGER NOT NULL,
    last_activity INTEGER NOT NULL,
    ended_at INTEGER,
    state BLOB NOT NULL
) STRICT;
CREATE INDEX sessions_live ON sessions (last_activity) WHERE ended_at IS NULL;
CREATE INDEX sessions_ended ON sessions (last_activity) WHERE ended_at IS NOT NULL;
-- A start asks for the highest one.
CREATE INDEX sessions_revision ON sessions (revision);

-- The session as it is after the event, in the same page.
ALTER TABLE inbox ADD COLUMN session_id TEXT;
ALTER TABLE inbox ADD COLUMN revision INTEGER;
ALTER TABLE inbox ADD COLUMN last_activity INTEGER;
ALTER TABLE inbox ADD COLUMN ended_at INTEGER;
ALTER TABLE inbox ADD COLUMN state BLOB;
