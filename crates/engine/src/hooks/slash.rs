//! `/hook:disable`, `/hook:enable`, `/hook:status` as a person types them in Claude Code.
