//! becket-hook, the program that Claude Code starts for every event.

fn main() -> std::process::ExitCode {
    becket_hook::run(std::env::args_os().skip(1))
}
