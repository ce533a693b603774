-- A session's events stand together for each thousand of them, not for all: with one place for each
-- session, an event of any of them wrote a page of its own, half of all that was written where there
-- are many. Who asks for a session looks into every thousand (store/read.rs).
DROP INDEX events_session;
CREATE INDEX events_session ON events (seq >> 10, session_id, at);
