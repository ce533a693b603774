//! The local time zone, which `TZ` may set to anything.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};

/// The folder with one file per time zone.
const ZONES: &str = "/usr/share/zoneinfo";
/// The largest file of a time zone. They have a few KiB.
const LARGEST: u64 = 1 << 20;

/// Returns the local time zone, or UTC if `TZ` names a device, a pipe or a file that is no time zone: reading
/// one might never end.
#[expect(clippy::disallowed_methods, reason = "TZ was looked at")]
pub fn zone() -> TimeZone {
    match std::env::var_os("TZ") {
        Some(tz) if !names_zone_files_only(&tz) => TimeZone::UTC,
        _ => TimeZone::system(),
    }
}

/// Returns the time now in the local time zone.
pub fn now() -> Zoned {
    Timestamp::now().to_zoned(zone())
}

fn names_zone_files_only(tz: &OsStr) -> bool {
    let name = tz.as_bytes();
    let name = Path::new(OsStr::from_bytes(name.strip_prefix(b":").unwrap_or(name)));
    may_be_zone_file(name) && may_be_zone_file(&Path::new(ZONES).join(name))
}

fn may_be_zone_file(path: &Path) -> bool {
    let Ok(found) = fs::metadata(path) else {
        return true;
    };
    // A file in `/proc` claims to be empty.
    found.is_dir() || found.is_file() && (1..LARGEST).contains(&found.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_regular_files_are_read_as_time_zones() {
        for tz in [
            "",
            "UTC",
            ":UTC",
            "EST5EDT",
            "Europe/Berlin",
            "no/such",
            "<+02>-2",
        ] {
            assert!(names_zone_files_only(OsStr::new(tz)), "{tz}");
        }
        for tz in [
            "/dev/zero",
            ":/dev/zero",
            "../../../dev/zero",
            ":/proc/kmsg",
            "/dev/tty",
        ] {
            assert!(!names_zone_files_only(OsStr::new(tz)), "{tz}");
        }
    }
}
