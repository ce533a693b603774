//! The switch: which hooks are off in one session, kept in one JSON file a session.
