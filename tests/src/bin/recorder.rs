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
struct Told {
    log: String,
    label: String,
    reply: String,
    stderr: String,
    exit: u8,
    hold: Option<String>,
}

fn main() -> io::Result<ExitCode> {
    let told = told();
    let mut payload = Vec::new();
    io::stdin().lock().read_to_end(&mut payload)?;
    record(&told, &payload)?;
    if let Some(file) = &told.hold {
        hold(Path::new(file));
    }
    eprint!("{}", told.stderr);
    print!("{}", told.reply);
    io::stdout().flush()?;
    Ok(ExitCode::from(told.exit))
}

fn told() -> Told {
    let mut told = Told::default();
    let mut args = std::env::args().skip(1);
    while let (Some(name), Some(value)) = (args.next(), args.next()) {
        match name.as_str() {
            "--log" => told.log = value,
            "--label" => told.label = value,
            "--reply" => told.reply = value,
            "--stderr" => told.stderr = value,
            "--exit" => told.exit = value.parse().unwrap_or(70),
            "--hold" => told.hold = Some(value),
            _ => {}
        }
    }
    told
}

/// Appends one line under a lock, so that the order of the lines is the order of arrival.
fn record(told: &Told, payload: &[u8]) -> io::Result<()> {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    let line = json!({
        "at": since.as_millis() as u64,
        "label": told.label,
        "payload": String::from_utf8_lossy(payload),
        "env": environment(),
    });
    let mut log = OpenOptions::new()
        .create(true)
        .append(true)
        .open(&told.log)?;
    let lock = File::open(&told.log)?;
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
