-- What each turn of a session has come to, so that cost by day is true: the cost of the whole session
-- when the turn was over, as the status line or the transcript gives it, and the tokens of the turn.
-- A turn is known by the time of its prompt.
CREATE TABLE figures (
    session_id TEXT NOT NULL,
    began INTEGER NOT NULL,
    at INTEGER NOT NULL,
    model TEXT,
    cost_usd REAL,
    input_tokens INTEGER NOT NULL,
    output_tokens INTEGER NOT NULL,
    PRIMARY KEY (session_id, began)
) STRICT, WITHOUT ROWID;
