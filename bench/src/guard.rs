//! `guard`: measures the judgement of one Bash call inside becket, from the event's bytes to the answer,
//! compared with a hook script that uses grep.

use std::fs;
use std::hint::black_box;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use becket_engine::config::ConfigCache;
use becket_engine::guard::rule::Say;
use becket_engine::guard::sight::{Around, judge_call};
use becket_wire::{Head, Place};
use serde_json::{Value, json};

use crate::args::BenchOptions;
use crate::report::{Bar, Report, Table, number};
use crate::samples::{Figures, Samples};

const ROUNDS: usize = 2000;
/// Scripts are judged, and the rival is started, in one of this many rounds, and only between blocks.
const SLOW_EVERY: usize = 20;
/// The number of rounds in a block.
const BLOCK: usize = 200;
const WARM_UP: usize = 50;
const OWN_RULES: usize = 100;
const LENGTH: usize = 200;
const SCRIPT: usize = 64 << 10;

/// The check of a typical hook script.
const RIVAL: &str = r#"grep -qE 'rm +-[rf]+ +[/~]|git (reset --hard|push.*--force|clean -f)|curl[^|]*\|.*sh' && exit 2; exit 0"#;

/// Everyday commands, each with true if the guards stop it. All are padded to the same length.
const COMMANDS: [(&str, bool); 8] = [
    (
        "cd web && npm ci && npm run build -- --mode production 2>&1 | tail -n 40 && ls -la dist",
        false,
    ),
    (
        "git add -A && git commit -m 'fix: rm -rf / is denied, git push --force too' && git push -u origin HEAD",
        false,
    ),
    (
        "for f in src/*.ts lib/*.ts; do if grep -q TODO \"$f\"; then echo \"$f: $(wc -l < \"$f\")\"; fi; done",
        false,
    ),
    (
        "find . -name '*.rs' -not -path './target/*' | xargs grep -ln 'fn main' | sort | uniq -c | head -50",
        false,
    ),
    (
        "curl -s localhost:3000/api/v1/users?limit=10 | jq -r '.items[] | [.id, .name] | @tsv' | column -t",
        false,
    ),
    (
        "D=$(mktemp -d) && cp -r src \"$D\" && (cd \"$D\" && cargo test --offline) && rm -rf \"$D\" target/debug/tmp",
        false,
    ),
    (
        "X=/home; cd /tmp && sudo -E env A=1 bash -c \"rm -rf $X/dev/../dev/*\" && echo done || true",
        true,
    ),
    (
        "npm run build; echo cm0gLXJmIH4= | base64 -d | sh; git status --short --branch | head -20",
        true,
    ),
];

/// A contender and its times.
struct Contender {
    name: &'static str,
    samples: Samples,
}

pub fn run(options: &BenchOptions) -> Result<Report> {
    let folder = tempfile::Builder::new()
        .prefix("bkt")
        .tempdir_in(&options.folder)?;
    let home = folder.path().join("home");
    let project = home.join("app");
    fs::create_dir_all(project.join(".git"))?;
    let place = Place::new(home.join(".becket"));
    fs::create_dir_all(place.home())?;
    fs::write(place.config(), own_rules())?;
    let cache = ConfigCache::new(&place, [7; 32], false);
    let (config, _) = cache.current(Some(&project));
    let around = Around {
        rules: &config.guards,
        place: &place,
        home: &home,
        project: &project,
        registered_by_settings: true,
        stalled: false,
    };
    let events: Vec<(Vec<u8>, bool)> = COMMANDS
        .iter()
        .map(|(command, stop)| (event(&padded(command), &project), *stop))
        .collect();
    for (event, stop) in &events {
        if stops(event, &around)? != *stop {
            bail!("misjudged: {}", String::from_utf8_lossy(event));
        }
    }
    let script = event(&script(), &project);
    let [mut short, mut long, mut rival] = ["200 characters", "64 KiB", "a hook script with grep"]
        .map(|name| Contender {
            name,
            samples: Samples::new(),
        });
    let rounds = options.rounds.unwrap_or(ROUNDS) * options.runs;
    for round in 0..WARM_UP + rounds {
        let (event, _) = &events[round % events.len()];
        let took = timed(|| black_box(stops(event, &around)).map(drop))?;
        if round < WARM_UP {
            continue;
        }
        short.samples.push(took);
        // Between blocks, because starting a process leaves cold caches behind.
        if (round - WARM_UP).is_multiple_of(BLOCK) {
            for _ in 0..BLOCK / SLOW_EVERY {
                long.samples
                    .push(timed(|| black_box(stops(&script, &around)).map(drop))?);
                rival.samples.push(timed(|| grep(event))?);
            }
        }
    }
    report(options, config.guards.len(), [&short, &long, &rival])
}

/// Judges an event from its bytes. Returns true if a guard stops it.
fn stops(event: &[u8], around: &Around<'_>) -> Result<bool> {
    let head = Head::read(event)?;
    let input: Value = serde_json::from_str(head.tool_input.context("no input")?)?;
    let tool = head.tool.as_deref().unwrap_or_default();
    let judged = judge_call(tool, &input, &head, around);
    Ok(judged
        .found
        .first()
        .is_some_and(|found| found.say > Say::Warn))
}

fn timed(work: impl FnOnce() -> Result<()>) -> Result<Duration> {
    let begin = Instant::now();
    work()?;
    Ok(begin.elapsed())
}

/// Runs the rival in a shell with the event on its stdin, as Claude Code starts a hook.
fn grep(event: &[u8]) -> Result<()> {
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", RIVAL]).stdin(Stdio::piped());
    let mut child = shell.spawn().context("could not start sh")?;
    if let Some(mut stdin) = child.stdin.take() {
        drop(stdin.write_all(event));
    }
    child.wait()?;
    Ok(())
}

/// Returns rules of a user: by program and argument, by path, by text.
fn own_rules() -> String {
    (0..OWN_RULES).map(own_rule).collect()
}

fn own_rule(number: usize) -> String {
    let condition = match number % 4 {
        0 => format!("command = \"tool{number}\"\nargs = [\"*prod*\", \"!--check\"]"),
        1 => format!(
            "paths = [\"vault{number}/**\", \"*.secret{number}\"]\naccess = [\"write\", \"delete\"]"
        ),
        2 => format!("patterns = [\"deploy-{number} --now\"]"),
        _ => format!("command = \"git push\"\nargs = [\"*release-{number}*\"]"),
    };
    format!(
        "[guards.own-{number}]\ntools = \"Bash\"\n{condition}\nanswer = \"deny\"\nreason = \"Rule {number}.\"\n\n"
    )
}

fn padded(command: &str) -> String {
    let mut command = format!("{command} # ");
    while command.len() < LENGTH {
        command.push('x');
    }
    command
}

/// Returns a long script of everyday commands.
fn script() -> String {
    let mut script = String::with_capacity(SCRIPT + LENGTH);
    for number in 0.. {
        if script.len() >= SCRIPT {
            break;
        }
        let (command, stop) = COMMANDS[number % COMMANDS.len()];
        if !stop {
            script.push_str(&format!(
                "if [ -f step{number} ]; then\n    {command}\nfi\n"
            ));
        }
    }
    script.truncate(script[..SCRIPT].rfind("if [").unwrap_or(0));
    script
}

fn event(command: &str, project: &Path) -> Vec<u8> {
    let event = json!({
        "session_id": "a1b2c3d4-0000-4000-8000-000000000001", "hook_event_name": "PreToolUse",
        "cwd": project, "permission_mode": "default", "tool_name": "Bash",
        "tool_input": {"command": command, "description": "a step"}, "tool_use_id": "toolu_1",
    });
    event.to_string().into_bytes()
}

fn report(options: &BenchOptions, rules: usize, contenders: [&Contender; 3]) -> Result<Report> {
    let mut report = Report::new(options);
    let mut figures: Vec<(&str, Figures)> = Vec::new();
    for contender in contenders {
        let figure = contender.samples.figures().context("no sample")?;
        figures.push((contender.name, figure));
    }
    let rows = figures.iter().map(|(name, figures)| {
        vec![
            (*name).to_owned(),
            number(figures.median),
            number(figures.p99),
            figures.count.to_string(),
        ]
    });
    report.tables.push(Table {
        title: format!("One Bash call, judged by {rules} guards"),
        columns: vec!["what", "median µs", "p99 µs", "calls"],
        rows: rows.collect(),
    });
    let [(_, short), (_, long), (_, rival)] = figures[..] else {
        bail!("three contenders");
    };
    report.bars = vec![
        Bar::at_most("200 characters: median, µs", short.median, 60.0, None),
        Bar::at_most("200 characters: p99, µs", short.p99, 200.0, None),
        Bar::at_most("64 KiB: median, ms", long.median / 1000.0, 20.0, None),
    ];
    report.figures = json!({
        "rules": rules, "median_us": short.median, "p99_us": short.p99,
        "script_median_us": long.median, "script_p99_us": long.p99,
        "rival_median_us": rival.median, "ratio": short.median / rival.median,
    });
    Ok(report)
}
