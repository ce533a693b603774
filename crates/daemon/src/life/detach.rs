//! Cuts the daemon loose: own session, own folder, no descriptors of its starter's.

use std::fs::File;
use std::io;

/// Leaves the starter's session and folder, and closes whatever else was inherited. stdout is the
/// notify socket until the start is reported.
pub(super) fn leave_the_starter() -> io::Result<()> {
    // It fails for a leader of a group, which is cut loose already.
    let _ = rustix::process::setsid();
    std::env::set_current_dir("/")?;
    close_inherited();
    Ok(())
}

/// Claude Code starts hooks with descriptors of its own; a daemon that kept one would keep a
/// pipe open for ever.
#[expect(
    unsafe_code,
    reason = "closing a descriptor that nobody here owns has no safe form"
)]
fn close_inherited() {
    let Ok(open) = std::fs::read_dir("/proc/self/fd") else {
        return;
    };
    let numbers: Vec<i32> = open
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect();
    // The listing had a descriptor too, and has closed it itself.
    let is_open =
        |number: &i32| std::fs::symlink_metadata(format!("/proc/self/fd/{number}")).is_ok();
    for number in numbers
        .into_iter()
        .filter(|number| *number > 2)
        .filter(is_open)
    {
        // SAFETY: this runs first, in the only thread, before anything else was opened: what is
        // open above 2 was inherited, and nothing in this process owns it.
        unsafe { rustix::io::close(number) };
    }
}

/// The start is reported: from here on nobody listens on stdout.
pub(super) fn close_the_notice() {
    if let Ok(null) = File::options().read(true).write(true).open("/dev/null") {
        let _ = rustix::stdio::dup2_stdout(&null);
        let _ = rustix::stdio::dup2_stderr(&null);
    }
}
