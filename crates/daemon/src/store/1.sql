-- Narrow rows that stay for ever; payloads beside them, which retention drops.
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
    took_us INTEGER,
    duplicate_of INTEGER
) STRICT;
CREATE UNIQUE INDEX events_id ON events (id);
CREATE INDEX events_at ON events (at);
CREATE INDEX events_session ON events (session_id, at);
CREATE INDEX events_event ON events (event, at);
CREATE INDEX events_tool ON events (tool, at) WHERE tool IS NOT NULL;
CREATE INDEX events_process ON events (pid, pid_start) WHERE event IN ('SessionStart', 'UserPromptSubmit');
CREATE INDEX events_fault ON events (at) WHERE fault IS NOT NULL;

-- A few events before they are settled into the log: one page a commit. The frames of a spool file.
CREATE TABLE inbox (
    seq INTEGER PRIMARY KEY,
    frames BLOB NOT NULL
) STRICT;

-- encoding: 0 as it came, 1 zstd
CREATE TABLE payloads (
    seq INTEGER PRIMARY KEY,
    encoding INTEGER NOT NULL,
    body BLOB NOT NULL
) STRICT;

-- Only events that were answered with more than silence have a row here.
CREATE TABLE decisions (
    seq INTEGER PRIMARY KEY,
    answer TEXT NOT NULL,
    by TEXT,
    reason TEXT,
    exit INTEGER NOT NULL,
    stdout BLOB NOT NULL,
    stderr BLOB NOT NULL
) STRICT;
