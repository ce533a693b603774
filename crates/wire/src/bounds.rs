//! The time limits of one hook call, which the shim and the daemon share.

use std::time::Duration;

/// The time for the daemon's first response.
pub const FIRST_RESPONSE: Duration = Duration::from_secs(1);
/// The time for the first response of a daemon that missed the deadline a moment ago.
pub const FIRST_RESPONSE_WHEN_SLOW: Duration = Duration::from_millis(50);
/// The time for the response to a status line, which is drawn again in a moment.
pub const STATUS_LINE: Duration = Duration::from_millis(300);
/// The time for which the mark of a missed deadline counts.
pub const SLOW_FOR: Duration = Duration::from_secs(10);
/// The time for which stdin may stay silent without ending.
pub const STDIN_SILENCE: Duration = Duration::from_secs(5);
/// The time for stdin as a whole.
pub const STDIN_TOTAL: Duration = Duration::from_secs(20);
/// The time that a hook call waits for a daemon to start.
pub const START: Duration = Duration::from_millis(300);
