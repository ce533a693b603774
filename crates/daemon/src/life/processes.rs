//! Processes that no event tells of: those of sessions that were killed, and hooks that a killed
//! process left behind.

use std::{fs, io};

use becket_engine::run::Orphans;
use becket_wire::process::{parent_and_start, process_state};

use crate::core::Message;
use crate::registry::Process;
use crate::serve::Door;

/// Finds the sessions whose Claude Code is gone.
pub(super) fn look_for(door: &Door, processes: Vec<(String, Process)>) {
    if processes.is_empty() {
        return;
    }
    let core = door.core.clone();
    tokio::task::spawn_blocking(move || {
        let mut gone = processes;
        gone.retain(|(_, process)| !is_alive(*process));
        if !gone.is_empty() {
            drop(core.blocking_send(Message::Gone(gone)));
        }
    });
}

/// Ends hooks whose process was killed and whose time is over, and records what is over.
pub(super) async fn end_orphans(door: &Door, orphans: &mut Orphans) {
    for (run, file) in orphans.look(&door.place.running()) {
        let recorded = door.core.send(Message::HookEnded(vec![run])).await;
        if recorded.is_ok() {
            drop(fs::remove_file(file));
        }
    }
}

fn is_alive((pid, start): Process) -> bool {
    match fs::read_to_string(format!("/proc/{pid}/stat")) {
        Ok(stat) => {
            let found = parent_and_start(&stat).map(|(_, start)| start);
            let dead = process_state(&stat).is_some_and(|state| matches!(state, 'Z' | 'X'));
            !dead && (start.is_none() || found == start)
        }
        // Only a process that is not there is gone: anything else says nothing.
        Err(why) => why.kind() != io::ErrorKind::NotFound,
    }
}
