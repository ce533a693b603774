//! Events as Claude Code sends them.
