//! Whether a project's `.becket/` counts: what it would run, pinned by content, approved once.
