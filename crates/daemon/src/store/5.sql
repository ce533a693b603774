-- The states of sessions that were written last, one behind another. With a place for each session, an
-- event of any of them wrote pages of its own, a third of all that was written where there are many.
-- What a newer state has overtaken goes; what none has reaches its row (store/session/lately.rs).
CREATE TABLE session_log (
    revision INTEGER PRIMARY KEY,
    session_id TEXT NOT NULL,
    last_activity INTEGER NOT NULL,
    ended_at INTEGER,
    state BLOB NOT NULL
) STRICT;
