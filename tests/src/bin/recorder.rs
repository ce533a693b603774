//! A hook that is independent of becket: records its payload and answers as its arguments say. Tests
//! compare becket's log with its records.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

/// The time between two checks of the hold file.
const LOOK: Duration = Duration::from_millis(10);

/// The longest time that a held hook waits, so that no process outlives the tests.
const LONGEST: Duration = Duration::from_secs(60);

#[derive(Default)]
struct Args {
    log: String,
    label: String,
    reply: String,
    stderr: String,
    exit: u8,
    hold: Option<String>,
}

fn main() -> io::Result<ExitCode> {
    let args = parse_args();
    let mut payload = Vec::new();
    io::stdin().lock().read_to_end(&mut payload)?;
    record(&args, &payload)?;
    if let Some(file) = &args.hold {
        hold(Path::new(file));
    }
    eprint!("{}", args.stderr);
    print!("{}", args.reply);
    io::stdout().flush()?;
    Ok(ExitCode::from(args.exit))
}

fn parse_args() -> Args {
    let mut args = Args::default();
    let mut words = std::env::args().skip(1);
    while let (Some(name), Some(value)) = (words.next(), words.next()) {
        match name.as_str() {
            "--log" => args.log = value,
            "--label" => args.label = value,
            "--reply" => args.reply = value,
            "--stderr" => args.stderr = value,
            "--exit" => args.exit = value.parse().unwrap_or(70),
            "--hold" => args.hold = Some(value),
            _ => {}
        }
    }
    args
}

/// Appends one line under a lock, so that the order of the lines is the order of arrival.
fn record(args: &Args, payload: &[u8]) -> io::Result<()> {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    let line = json!({
        "at": since.as_millis() as u64,
        "label": args.label,
        "payload": String::from_utf8_lossy(payload),
        "env": environment(),
    });
    let mut log = OpenOptions::new()
        .create(true)
        .append(true)
        .open(&args.log)?;
    let lock = File::open(&args.log)?;
    lock.lock()?;
    log.write_all(format!("{line}\n").as_bytes())
}

fn environment() -> Value {
    let secret = |name: &str| name.contains("TOKEN") || name.contains("API_KEY");
    let kept = std::env::vars().filter(|(name, _)| !secret(name));
    kept.map(|(name, value)| (name, Value::String(value)))
        .collect::<serde_json::Map<_, _>>()
        .into()
}

#[expect(
    clippy::disallowed_methods,
    reason = "the pause between two looks at the file"
)]
fn hold(file: &Path) {
    let began = Instant::now();
    while !file.exists() && began.elapsed() < LONGEST {
        std::thread::sleep(LOOK);
    }
}
