//! Whoever waits for an answer comes first, on whatever core is left.

/// This thread runs when nobody else wants to. A low priority is not enough: a thread that was given
/// its turn keeps it for some milliseconds, and the writer, the dispatcher and whoever they answer then
/// share what is left of two cores. Where that is not to be had it has the low priority.
#[cfg(target_os = "linux")]
pub(super) fn step_back() {
    if !run_when_idle() {
        let this = rustix::thread::gettid();
        let _ = rustix::process::setpriority_process(Some(this), 15);
    }
}

#[cfg(not(target_os = "linux"))]
pub(super) fn step_back() {}

#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "rustix has no sched_setscheduler")]
fn run_when_idle() -> bool {
    let param = libc::sched_param { sched_priority: 0 };
    // SAFETY: 0 is this very thread, and `param` outlives the call, which only reads it.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &raw const param) == 0 }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn it_runs_when_nobody_else_wants_to() {
        let policy = || {
            let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
            // Behind the name, which may have blanks: `policy` is the 41st field, the state the third.
            let fields = stat.rsplit_once(") ").unwrap().1;
            fields.split(' ').nth(38).map(str::to_owned)
        };
        let other = std::thread::spawn(move || {
            step_back();
            policy()
        });
        assert_eq!(other.join().unwrap().as_deref(), Some("5"), "SCHED_IDLE");
        assert_eq!(policy().as_deref(), Some("0"), "this thread is as it was");
    }
}
