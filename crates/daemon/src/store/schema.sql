-- Narrow rows, which stay for ever. Their payloads are in another table, because retention deletes them.
CREATE TABLE events (
    seq INTEGER PRIMARY KEY,
    id BLOB NOT NULL,
    at INTEGER NOT NULL,
    session_id TEXT,
    agent_id TEXT,
    event TEXT,
    tool TEXT,
    tool_use_id TEXT,
    prompt_id TEXT,
    cwd TEXT,
    project_dir TEXT,
    pane TEXT,
    pid INTEGER NOT NULL,
    pid_start INTEGER,
    pid_is_claude INTEGER NOT NULL,
    attended INTEGER NOT NULL,
    entrypoint TEXT,
    origin TEXT,
    source TEXT NOT NULL,
    fault TEXT,
    masked INTEGER NOT NULL,
    size INTEGER NOT NULL,
    took_us INTEGER,        -- NULL: not answered
    duplicate_of INTEGER,
    detour TEXT             -- why the daemon did not answer it
) STRICT;
CREATE UNIQUE INDEX events_id ON events (id);
CREATE INDEX events_session ON events (session_id, seq);
CREATE INDEX events_at ON events (at);
CREATE INDEX events_fault ON events (at) WHERE fault IS NOT NULL;

-- encoding: 0 plain, 1 zstd
CREATE TABLE payloads (
    seq INTEGER PRIMARY KEY,
    encoding INTEGER NOT NULL,
    body BLOB NOT NULL
) STRICT;

-- Only events whose answer has content have a row here.
CREATE TABLE decisions (
    seq INTEGER PRIMARY KEY,
    answer TEXT NOT NULL,
    by TEXT,
    reason TEXT,
    exit INTEGER NOT NULL,
    stdout BLOB NOT NULL,
    stderr BLOB NOT NULL,
    effort TEXT             -- what the session's effort said: JSON
) STRICT;

-- One row for each run of a named hook. A hook runs on an event once.
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

-- One row for each session: its whole state, as JSON.
CREATE TABLE sessions (
    session_id TEXT PRIMARY KEY,
    last_activity INTEGER NOT NULL,
    ended_at INTEGER,
    pid INTEGER,
    pid_start INTEGER,
    state BLOB NOT NULL
) STRICT;
-- The indexed columns change only when a session ends, so an event writes no index.
CREATE INDEX sessions_live ON sessions (session_id) WHERE ended_at IS NULL;
CREATE INDEX sessions_ended ON sessions (last_activity) WHERE ended_at IS NOT NULL;

-- The figures of each turn of a session, from which the cost by day is computed: the cost of the whole session at
-- the end of the turn, from the status line or the transcript, and the tokens of the turn. A turn is known by the
-- time of its prompt.
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

-- Work that outlives sessions. Written when a task, an effort, a window or a message begins or ends; what
-- changes with every call is in the session's state.
CREATE TABLE projects (
    id INTEGER PRIMARY KEY,
    path TEXT NOT NULL UNIQUE
) STRICT;
CREATE TABLE tasks (
    id INTEGER PRIMARY KEY,
    project_id INTEGER NOT NULL,
    folder TEXT NOT NULL UNIQUE,
    title TEXT,
    keywords TEXT NOT NULL, -- JSON: a list
    created_at INTEGER NOT NULL
) STRICT;
CREATE TABLE efforts (
    id INTEGER PRIMARY KEY,
    task_id INTEGER NOT NULL,
    ordinal INTEGER NOT NULL,
    skill TEXT NOT NULL,
    mode TEXT,
    title TEXT,
    phase TEXT,
    phases TEXT NOT NULL,     -- JSON: its history
    directives TEXT NOT NULL, -- JSON: the files that were found
    metadata TEXT NOT NULL,   -- JSON: artifacts, and who works on it
    last_window BLOB,
    started_at INTEGER NOT NULL,
    finished_at INTEGER,      -- NULL: active
    UNIQUE (task_id, ordinal)
) STRICT;
CREATE INDEX efforts_active ON efforts (id) WHERE finished_at IS NULL;
CREATE TABLE windows (
    id BLOB PRIMARY KEY,      -- of the event that opened it
    effort_id INTEGER NOT NULL,
    session_id TEXT NOT NULL,
    agent_id TEXT,            -- NULL: the main agent
    prev BLOB,
    source TEXT NOT NULL,
    started_at INTEGER NOT NULL,
    ended_at INTEGER,
    dehydrated TEXT           -- JSON
) STRICT, WITHOUT ROWID;
CREATE INDEX windows_effort ON windows (effort_id, started_at);
-- AGENT_ID: the identity of a pane or launch.
CREATE TABLE agents (
    project_id INTEGER NOT NULL,
    agent_id TEXT NOT NULL,
    effort_id INTEGER NOT NULL,
    status TEXT NOT NULL,
    parent TEXT,
    PRIMARY KEY (project_id, agent_id)
) STRICT, WITHOUT ROWID;
CREATE TABLE messages (
    id INTEGER PRIMARY KEY,
    effort_id INTEGER NOT NULL,
    at INTEGER NOT NULL,
    session_id TEXT,
    agent_id TEXT,
    kind TEXT NOT NULL,
    text TEXT NOT NULL
) STRICT;
CREATE INDEX messages_effort ON messages (effort_id, at);

PRAGMA user_version = 7;
