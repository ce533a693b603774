//! What a hook has started to stay is no hook: the keeper looks for those alone.

use std::fs;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::process::{Child, Stdio};

use becket_tests::wait::{self, PATIENCE};
use becket_tests::world::is_alive;
use becket_wire::process::group_and_session;
use serde_json::json;

use super::Ship;

/// A program with the token of a hook. It does not outlive the test.
struct Program(Child);

impl Program {
    fn new(ship: &Ship, program: &str, token: &str) -> Self {
        let mut command = ship.world.command(program);
        if program == "setsid" {
            command.arg("sleep");
        } else {
            command.process_group(0);
        }
        let command = command.arg("1000").env("BECKET_RUN", token);
        Self(command.spawn().expect("a program"))
    }

    /// Waits until it is the sleep that it is to be, and leads its group.
    fn begun(self) -> Self {
        let pid = self.0.id();
        let begun = || {
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
            let (group, _) = group_and_session(&stat)?;
            (group == pid && stat.contains("(sleep)")).then_some(())
        };
        wait::until(PATIENCE, begun).expect("it begins");
        self
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// What a hook has started to stay has its token, and a session of its own. The keeper looks for a
/// hook only if its runner was killed in the very moment of its start; here it is told of that moment.
#[test]
fn a_service_that_a_hook_has_started_outlives_the_daemon() {
    let ship = Ship::new("");
    let begin = |program, token| Program::new(&ship, program, token).begun();
    let hook = begin("sleep", "1-1-1");
    let stays = [begin("setsid", "1-1-2"), begin("sleep", "1-1-4")];
    let mut keeper = ship.world.becket(["keeper"]);
    let mut keeper = keeper.stdin(Stdio::piped()).spawn().expect("a keeper");
    let mut told = keeper.stdin.take().expect("a pipe");
    for nth in 1..=3 {
        let token = format!("1-1-{nth}");
        let start =
            json!({"nth": nth, "token": token, "own_session": false, "left_ms": 0, "run": null});
        writeln!(told, "{}", json!({ "starting": start })).expect("a line");
    }
    drop(told);
    assert!(keeper.wait().expect("its end").success());
    assert!(!is_alive(hook.0.id()), "its time was up");
    for one in stays {
        assert!(is_alive(one.0.id()), "it was nobody's to end");
    }
}
