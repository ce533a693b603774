-- Which sessions live changes seldom, when they did something with every event: with that as its key,
-- every event moved an entry here.
DROP INDEX sessions_live;
CREATE INDEX sessions_live ON sessions (session_id) WHERE ended_at IS NULL;
