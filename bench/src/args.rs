//! Reads the command line of becket-bench.

use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};

use crate::cpu_load::Load;

pub const HELP: &str = "\
becket-bench: what becket costs, each figure a ratio against a rival in the same run

usage: becket-bench BENCH [OPTION…]

benches:
  spawn          one event through shim and daemon, against other programs
  ingest         durable events a second, for 1, 10, 100 connections
  growth         one event, and `becket events`, with many events stored
  view           the live view with 1,000 sessions, and `becket sessions` with many events stored
  claude         what becket adds to a tool call inside the real Claude Code
  hooks          what ten named hooks add to such a call, against one
  launch         what `becket run` adds before Claude Code's first screen
  callback       what one callback of becket-sdk adds to such a call, against the Python SDK
  guard          what guards cost for one Bash call, against a hook script with grep
  refresh        ten idle sessions whose status line is drawn again every two seconds
  instructions   instructions of the shim for one event (needs valgrind)

options:
  --rounds N     how often each rival is run (spawn 3000, ingest 5, growth 2000, view 3,
                 claude and hooks 240, launch 20, callback 480, guard 2000,
                 refresh 3, instructions 5)
  --runs N       whole runs; the best counts (default 1)
  --load L,…     spawn: idle, one, all (default all three)
  --rivals R,…   spawn: only these beside becket and true (default all)
  --also 'P A…'  spawn: one more rival, a program and its arguments
  --connections N,…   ingest (default 1,10,100)
  --stored N,…   growth, view: events stored (default 10000,1000000)
  --json FILE    write the figures as JSON too
  --markdown     print Markdown instead of text
  --check        exit 1 if a bar is missed
  --becket FILE  the becket under test (default: beside this program)
  --folder DIR   where the throw-away homes are made (default /tmp)
  --hook FILE    the shim under test (default: as scripts/build-shim leaves it)
";

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Bench {
    Help,
    Spawn,
    Ingest,
    Growth,
    View,
    Claude,
    Hooks,
    Launch,
    Callback,
    Guard,
    Refresh,
    Instructions,
    /// Keeps one core busy until the parent process has ended.
    Spin,
    /// The floor of `ingest`: answers every frame and stores nothing.
    Echo(PathBuf),
    /// Drives a session with becket-sdk in `callback`.
    SdkDriver(Vec<String>),
}

/// The bench to run, and its options.
#[derive(Debug, Clone)]
pub struct BenchOptions {
    pub bench: Bench,
    pub rounds: Option<usize>,
    pub runs: usize,
    pub loads: Vec<Load>,
    pub rivals: Option<Vec<String>>,
    /// Additional rivals, each a program with its arguments.
    pub also: Vec<String>,
    pub connections: Vec<usize>,
    pub stored: Vec<usize>,
    pub json: Option<PathBuf>,
    pub markdown: bool,
    pub check: bool,
    pub becket: Option<PathBuf>,
    pub hook: Option<PathBuf>,
    /// The folder in which the throw-away homes are made.
    pub folder: PathBuf,
    /// The command line without paths, so that it can be repeated on other machines.
    pub command_line: String,
}

impl BenchOptions {
    pub fn read(args: impl Iterator<Item = OsString>) -> Result<Self> {
        let mut args = args.map(|arg| arg.to_string_lossy().into_owned());
        let mut options = Self {
            bench: Bench::Help,
            rounds: None,
            runs: 1,
            loads: Load::ALL.to_vec(),
            rivals: None,
            also: Vec::new(),
            connections: vec![1, 10, 100],
            stored: vec![10_000, 1_000_000],
            json: None,
            markdown: false,
            check: false,
            becket: None,
            hook: None,
            folder: "/tmp".into(),
            command_line: "becket-bench".to_owned(),
        };
        options.bench = match args.next().as_deref() {
            None | Some("help" | "--help" | "-h") => return Ok(options),
            Some("spawn") => Bench::Spawn,
            Some("ingest") => Bench::Ingest,
            Some("growth") => Bench::Growth,
            Some("view") => Bench::View,
            Some("claude") => Bench::Claude,
            Some("hooks") => Bench::Hooks,
            Some("launch") => Bench::Launch,
            Some("callback") => Bench::Callback,
            Some("guard") => Bench::Guard,
            Some("refresh") => Bench::Refresh,
            Some("instructions") => Bench::Instructions,
            Some("spin") => Bench::Spin,
            Some("echo") => Bench::Echo(args.next().context("echo needs a socket")?.into()),
            Some("sdk-driver") => Bench::SdkDriver(args.by_ref().collect()),
            Some(other) => bail!("there is no bench `{other}`\nhint: becket-bench --help"),
        };
        options.command_line = format!("becket-bench {}", options.name());
        while let Some(name) = args.next() {
            let mut value = || args.next().with_context(|| format!("{name} needs a value"));
            let mut repeatable = true;
            let text = match &*name {
                "--markdown" => {
                    options.markdown = true;
                    repeatable = false;
                    String::new()
                }
                "--check" => {
                    options.check = true;
                    String::new()
                }
                _ => value()?,
            };
            match &*name {
                "--markdown" | "--check" => {}
                "--rounds" => options.rounds = Some(number(&name, &text)?),
                "--runs" => options.runs = number(&name, &text)?,
                "--load" => options.loads = list(&text, Load::from_name)?,
                "--rivals" => options.rivals = Some(list(&text, |one| Ok(one.to_owned()))?),
                "--also" => {
                    repeatable = false;
                    options.also.push(text.clone());
                }
                "--connections" => options.connections = list(&text, |one| number(&name, one))?,
                "--stored" => options.stored = list(&text, |one| number(&name, one))?,
                "--folder" => options.folder = text.clone().into(),
                "--json" | "--becket" | "--hook" => {
                    repeatable = false;
                    let path = Some(PathBuf::from(&text));
                    match &*name {
                        "--json" => options.json = path,
                        "--becket" => options.becket = path,
                        _ => options.hook = path,
                    }
                }
                _ => bail!("there is no option `{name}`\nhint: becket-bench --help"),
            }
            if repeatable {
                options.command_line = format!("{} {name} {text}", options.command_line)
                    .trim_end()
                    .to_owned();
            }
        }
        Ok(options)
    }

    pub fn name(&self) -> &'static str {
        match self.bench {
            Bench::Help => "help",
            Bench::Spawn => "spawn",
            Bench::Ingest => "ingest",
            Bench::Growth => "growth",
            Bench::View => "view",
            Bench::Claude => "claude",
            Bench::Hooks => "hooks",
            Bench::Launch => "launch",
            Bench::Callback => "callback",
            Bench::Guard => "guard",
            Bench::Refresh => "refresh",
            Bench::Instructions => "instructions",
            Bench::Spin => "spin",
            Bench::Echo(_) => "echo",
            Bench::SdkDriver(_) => "sdk-driver",
        }
    }
}

fn number(name: &str, text: &str) -> Result<usize> {
    let number = text
        .replace('_', "")
        .parse()
        .with_context(|| format!("{name} needs a number, not `{text}`"))?;
    if number == 0 {
        bail!("{name} needs a number above 0");
    }
    Ok(number)
}

fn list<T>(text: &str, read: impl Fn(&str) -> Result<T>) -> Result<Vec<T>> {
    text.split(',').map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<BenchOptions> {
        BenchOptions::read(line.split(' ').map(OsString::from))
    }

    #[test]
    fn the_reported_command_line_has_no_paths() {
        let options = read("spawn --rounds 7 --hook /x/hook --load idle,all --json out --markdown");
        let options = options.unwrap();
        assert_eq!(
            options.command_line,
            "becket-bench spawn --rounds 7 --load idle,all"
        );
        assert_eq!(options.loads, [Load::Idle, Load::All]);
        assert_eq!(options.hook, Some("/x/hook".into()));
        assert!(options.markdown && options.json.is_some());
    }

    #[test]
    fn invalid_command_lines_are_errors() {
        for line in [
            "nothing",
            "spawn --fast",
            "spawn --rounds",
            "spawn --rounds many",
            "spawn --rounds 0",
            "spawn --load some",
        ] {
            assert!(read(line).is_err(), "{line}");
        }
    }
}
