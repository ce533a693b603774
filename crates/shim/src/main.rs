//! becket-hook: what Claude Code starts for every event.

use std::process::ExitCode;

fn main() -> ExitCode {
    becket_hook::run(std::env::args_os().skip(1))
}
