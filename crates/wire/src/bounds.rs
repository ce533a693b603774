//! The bounds of one hook call, by which shim and daemon live alike.

use std::time::Duration;

/// How long the daemon may take to its first word.
pub const FIRST_WORD: Duration = Duration::from_secs(1);
/// The same, when it has missed that deadline a moment ago.
pub const FIRST_WORD_WHEN_SLOW: Duration = Duration::from_millis(50);
/// The same for a status line: it is drawn again in a moment.
pub const STATUS_LINE: Duration = Duration::from_millis(300);
/// How long the mark of a missed deadline counts.
pub const SLOW_FOR: Duration = Duration::from_secs(10);
/// How long stdin may keep silent without ending.
pub const STDIN_SILENCE: Duration = Duration::from_secs(5);
/// How long stdin may take in all.
pub const STDIN_IN_ALL: Duration = Duration::from_secs(20);
/// How long a hook call waits for a daemon that is being started.
pub const START: Duration = Duration::from_millis(300);
