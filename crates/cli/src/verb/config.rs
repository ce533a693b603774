//! `becket config`: shows the values in force and their origins, checks the files, prints the schema and the paths.

use std::fmt::Write;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;
use becket_engine::config::{self, FileStatus, Problem, Severity, Snapshot};
use becket_engine::hooks::Action;
use becket_engine::process::Program;
use becket_engine::program;
use clap::Subcommand;
use serde_json::{Value as Json, json};
use unicode_width::UnicodeWidthStr;

use crate::adopt::{is_assignment, is_interpreter};
use crate::event_line;
use crate::failure::Code;
use crate::settings;
use crate::ui::style::{BAD, DIM, WARN};
use crate::ui::text::{fold, is_plain, visible};
use crate::world::{World, project_of};

/// Show every value of the config, and the file and line that set it
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct ConfigArgs {
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(subcommand)]
    verb: Option<ConfigVerb>,
}

#[derive(Debug, Subcommand)]
enum ConfigVerb {
    /// List everything that is wrong (exit 1 if something is; warnings do not count)
    Check {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Print a JSON schema of the config files, for editors
    Schema,
    /// List the config files, lowest first, and whether each is in force
    Path {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

impl ConfigArgs {
    pub fn run(self, world: &World) -> Result<ExitCode> {
        if let Some(ConfigVerb::Schema) = self.verb {
            println!("{:#}", config::schema());
            return Ok(ExitCode::SUCCESS);
        }
        let snapshot = world.loader(Some(project_of(&world.cwd))).current();
        let mut snapshot = Snapshot::clone(&snapshot);
        let variables = world.overrides.variables.keys().map(|name| &**name);
        snapshot.problems.extend(config::misspelt(variables));
        let missing = missing_programs(&snapshot, project_of(&world.cwd), &world.cwd);
        snapshot.problems.extend(missing);
        match self.verb {
            None if self.json => println!("{:#}", all_json(&snapshot)),
            None => {
                let shown = values(&snapshot, event_line::width());
                anstream::print!("{shown}{}", warnings(&snapshot));
            }
            Some(ConfigVerb::Path { json: true }) => println!("{:#}", files_json(&snapshot)),
            Some(ConfigVerb::Path { json: false }) => anstream::print!("{}", files(&snapshot)),
            Some(ConfigVerb::Check { json }) => return Ok(check(&snapshot, json)),
            Some(ConfigVerb::Schema) => {}
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Warns of hooks whose program or script does not exist.
fn missing_programs(snapshot: &Snapshot, project: &Path, cwd: &Path) -> Vec<Problem> {
    let mut problems = Vec::new();
    for hook in &snapshot.hooks {
        let Action::Run(program) = &hook.action else {
            continue;
        };
        // Hooks of an untrusted project are checked too: its author runs this before trusting it.
        let Some(what) = missing(program, project, cwd).filter(|_| hook.off.is_none()) else {
            continue;
        };
        let key = format!("hooks.{}.run", hook.name);
        let set = snapshot.settings.get(&key);
        let origin = set.map_or(&hook.declared, |set| &set.origin);
        let mut problem = Problem::warning(origin.to_string(), format!("{key}: {what}"));
        problem.file.clone_from(&origin.file);
        problems.push(problem);
    }
    problems
}

/// Returns a text about the file that a program needs and that does not exist. Of a line with several commands only the
/// first is checked, and only the files that it names: it may be a keyword. A line with expansions is not checked.
fn missing(program: &Program, project: &Path, cwd: &Path) -> Option<String> {
    let mut is_cut = false;
    let words = match program {
        Program::List(words) => words.clone(),
        Program::Shell(line) => {
            let project = project.to_string_lossy();
            let line = line.replace("${CLAUDE_PROJECT_DIR}", &project);
            let line = line.replace("$CLAUDE_PROJECT_DIR", &project);
            let line = with_home(line);
            let words = settings::words(&line).or_else(|| {
                is_cut = true;
                settings::words(first_command(&line))
            });
            let words = words?.into_iter();
            words.skip_while(|word| is_assignment(word)).collect()
        }
    };
    let (first, rest) = words.split_first()?;
    let needs_path = match program {
        Program::List(_) => !first.contains('/'),
        Program::Shell(_) => !is_cut && is_looked_up(first),
    };
    if needs_path && program::find(first, &program::folders()).is_none() {
        return Some(format!("{first} is not on PATH"));
    }
    let options = rest.iter().take_while(|word| word.starts_with('-'));
    let (options, operands) = rest.split_at(options.count());
    let is_code = options.iter().any(|option| is_for_code(option));
    let script = operands.first();
    let script = script.filter(|_| is_interpreter(first) && !is_code);
    // An operand without a slash may be the value of an option, and without a dot a verb, as in `deno run`.
    let script =
        script.filter(|word| word.contains('/') || (options.is_empty() && word.contains('.')));
    let first = Some(first).filter(|word| word.contains('/'));
    let mut files = first.into_iter().chain(script);
    let file = files.find(|word| !exists(word, project, cwd))?;
    Some(format!("{file} does not exist"))
}

/// Returns true if a file exists, seen from the project or from the working folder.
fn exists(word: &str, project: &Path, cwd: &Path) -> bool {
    let path = match word.strip_prefix("~/").zip(std::env::home_dir()) {
        Some((rest, home)) => home.join(rest),
        None => Path::new(word).to_path_buf(),
    };
    project.join(&path).exists() || cwd.join(&path).exists()
}

/// Returns the part of a shell's line before the first operator outside of quotes.
fn first_command(line: &str) -> &str {
    let mut quote = None;
    let mut is_escaped = false;
    let end = line.find(|c: char| {
        if std::mem::take(&mut is_escaped) {
            return false;
        }
        match (quote, c) {
            (None, '|' | ';' | '&' | '<' | '>' | '\n') => return true,
            (None | Some('"'), '\\') => is_escaped = true,
            (None, '\'' | '"') => quote = Some(c),
            (Some(open), _) if open == c => quote = None,
            _ => {}
        }
        false
    });
    &line[..end.unwrap_or(line.len())]
}

/// The commands of a shell itself, which are not on PATH.
const SHELL_BUILTINS: [&str; 20] = [
    ".", "builtin", "cd", "command", "eval", "exec", "exit", "export", "read", "return", "set",
    "shift", "source", "time", "trap", "type", "ulimit", "umask", "unset", "wait",
];

/// Returns true if a shell looks for a program of this name on PATH.
fn is_looked_up(word: &str) -> bool {
    word.chars()
        .all(|c| c.is_ascii_alphanumeric() || "-_.+".contains(c))
        && !SHELL_BUILTINS.contains(&word)
}

/// Returns true if the operand after this option of an interpreter is code: `-c`, `-lc`, `-pe`,
/// `-r`, `--eval`.
fn is_for_code(option: &str) -> bool {
    match option.strip_prefix("--") {
        Some(long) => {
            let name = long.split('=').next().unwrap_or_default();
            matches!(name, "eval" | "print")
        }
        None => option.contains(['c', 'e', 'p', 'r']),
    }
}

/// Replaces `$HOME` by the user's home, as a shell would.
fn with_home(line: String) -> String {
    let Some(home) = std::env::home_dir() else {
        return line;
    };
    let home = home.to_string_lossy();
    let line = line.replace("${HOME}", &home);
    let line = line.replace("$HOME/", &format!("{home}/"));
    line.replace("$HOME\"", &format!("{home}\""))
}

/// Lists every value with its origin, in columns.
fn values(snapshot: &Snapshot, room: usize) -> String {
    let rows: Vec<[String; 3]> = snapshot
        .settings
        .iter()
        .map(|(path, setting)| [path.clone(), setting.text(), setting.origin.to_string()])
        .collect();
    columns(&rows, room)
}

/// The greatest width of a column. A longer text does not widen it.
const WIDEST: usize = 60;

/// Renders three columns, the last one dim. A text that does not fit continues on the next line, in the second column.
/// Keys, values and paths may be foreign: their hidden characters are shown, and the terminal obeys none.
fn columns(rows: &[[String; 3]], room: usize) -> String {
    let rows: Vec<[String; 3]> = rows
        .iter()
        .map(|row| row.each_ref().map(|cell| visible(cell)))
        .collect();
    let (first, third) = (
        column_width(&rows, 0, WIDEST),
        column_width(&rows, 2, usize::MAX),
    );
    let left = room.saturating_sub(first + third + 4);
    let second = column_width(&rows, 1, left.clamp(8, WIDEST));
    let mut out = String::new();
    for [one, two, three] in &rows {
        let taken = one.width().max(first) + two.width().max(second) + three.width() + 4;
        if taken <= room {
            writeln!(out, "{one:first$}  {two:second$}  {DIM}{three}{DIM:#}").ok();
            continue;
        }
        let room = room.saturating_sub(first + 2).max(20);
        let names = std::iter::once(&**one).chain(std::iter::repeat(""));
        for (name, line) in names.zip(fold(two, room)) {
            writeln!(out, "{name:first$}  {}", line.trim_end()).ok();
        }
        let before = if three.width() <= room { first + 2 } else { 4 };
        writeln!(out, "{:before$}{DIM}{three}{DIM:#}", "").ok();
    }
    out
}

/// Returns the width of the widest cell in a column, without those over the limit.
fn column_width(rows: &[[String; 3]], column: usize, limit: usize) -> usize {
    let widths = rows.iter().map(|row| row[column].width());
    widths.filter(|width| *width <= limit).max().unwrap_or(0)
}

/// Lists the ignored files and the problems.
fn warnings(snapshot: &Snapshot) -> String {
    let mut out = String::new();
    for file in &snapshot.files {
        if file.status == FileStatus::NotTrusted {
            writeln!(
                out,
                "{DIM}{}: not trusted: ignored{DIM:#}",
                visible(&file.source.file.display().to_string())
            )
            .ok();
        }
    }
    for problem in &snapshot.problems {
        out += &problem_text(problem);
    }
    if out.is_empty() {
        out
    } else {
        format!("\n{out}")
    }
}

fn problem_text(problem: &Problem) -> String {
    let (style, word) = match problem.severity {
        Severity::Error => (BAD, "error"),
        Severity::Warning => (WARN, "warning"),
    };
    let text = visible(&problem.to_string());
    let mut out = format!("{style}{word}:{style:#} {text}\n");
    for line in problem.picture().iter().flat_map(|picture| picture.lines()) {
        // One character for each, so that the mark stays below its place.
        let line = line.replace(|c| c != '\t' && !is_plain(c), "\u{fffd}");
        writeln!(out, "  {DIM}{line}{DIM:#}").ok();
    }
    out
}

fn files(snapshot: &Snapshot) -> String {
    let rows = snapshot.files.iter().map(|file| {
        let path = file.source.file.display().to_string();
        let level = file.source.level.name().to_owned();
        [level, path, standing(file.status).to_owned()]
    });
    columns(&rows.collect::<Vec<_>>(), usize::MAX)
}

fn check(snapshot: &Snapshot, json: bool) -> ExitCode {
    let clean = snapshot.errors().next().is_none();
    if json {
        let problems: Vec<Json> = snapshot.problems.iter().map(problem_json).collect();
        println!("{:#}", json!({ "clean": clean, "problems": problems }));
    } else {
        let list: String = snapshot.problems.iter().map(problem_text).collect();
        anstream::print!("{list}");
        if snapshot.problems.is_empty() {
            println!("the configuration is clean");
        }
    }
    if clean {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(Code::Failed as u8)
    }
}

fn standing(standing: FileStatus) -> &'static str {
    match standing {
        FileStatus::Absent => "absent",
        FileStatus::InForce => "in force",
        FileStatus::NotTrusted => "not trusted: ignored",
        FileStatus::LastGood => "broken: its last good copy is in force",
        FileStatus::Broken => "broken: not in force",
    }
}

fn all_json(snapshot: &Snapshot) -> Json {
    let values: Vec<Json> = snapshot
        .settings
        .iter()
        .map(|(path, setting)| {
            let origin = &setting.origin;
            json!({
                "key": path,
                "value": setting.value,
                "level": origin.level.name(),
                "file": origin.file,
                "line": origin.line,
                "variable": origin.variable,
                "last_good": origin.last_good,
            })
        })
        .collect();
    let tables: Vec<Json> = [&snapshot.config.hooks, &snapshot.config.guards]
        .into_iter()
        .flatten()
        .map(|table| {
            let origin = table.origin();
            json!({
                "key": format!("{}.{}", table.section, table.name),
                "value": table.table,
                "level": origin.level.name(),
                "file": origin.file,
                "line": origin.line,
            })
        })
        .collect();
    let problems: Vec<Json> = snapshot.problems.iter().map(problem_json).collect();
    json!({ "values": values, "tables": tables, "files": files_json(snapshot), "problems": problems })
}

fn files_json(snapshot: &Snapshot) -> Json {
    snapshot.files.iter().map(file_json).collect()
}

fn file_json(file: &config::FileReport) -> Json {
    json!({
        "level": file.source.level.name(),
        "file": file.source.file,
        "exists": file.status != FileStatus::Absent,
        "standing": file.status,
    })
}

fn problem_json(problem: &Problem) -> Json {
    json!({
        "severity": problem.severity,
        "place": problem.place,
        "file": problem.file,
        "line": problem.at.as_ref().map(|at| at.line),
        "column": problem.at.as_ref().map(|at| at.column),
        "message": problem.message,
        "hint": problem.hint,
    })
}

#[cfg(test)]
mod tests {
    use becket_engine::config::{ConfigFiles, Loader};
    use becket_wire::Place;

    use super::*;

    /// Returns the output of the verb, without styles and without the folder of this run.
    fn shown(show: fn(&Snapshot) -> String) -> String {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let write = |name: &str, text: &str| {
            std::fs::create_dir_all(path(name).parent().unwrap()).unwrap();
            std::fs::write(path(name), text).unwrap();
        };
        write(
            "home/config.toml",
            "[store]\nkeep_days = 7\nkeep_byte = 1\n\n[hooks.mine]\nrun = \"x\"\non = [\"Stop\"]\n",
        );
        write("managed.toml", "[daemon]\nidle = \"soon\" # é\n");
        write("project/.becket/config.toml", "[guards.x]\n");
        let files = ConfigFiles {
            system: path("system.toml"),
            user: path("home/config.toml"),
            project: Some(path("project")),
            managed: path("managed.toml"),
        };
        let mut loader = Loader::with_files(&files, &Place::new(path("home")), false);
        let text = anstream::adapter::strip_str(&show(&loader.current())).to_string();
        text.replace(&folder.path().display().to_string(), "")
    }

    #[test]
    fn shows_every_value_with_what_set_it() {
        insta::assert_snapshot!(shown(|snapshot| values(snapshot, usize::MAX)), @r#"
    answer.enabled        true      built-in
    daemon.idle           12h       built-in
    effort.deny           10        built-in
    effort.overflow       91        built-in
    effort.remind         3         built-in
    effort.warn_before    10        built-in
    hooks.mine.enabled    true      /home/config.toml:5
    hooks.mine.on         ["Stop"]  /home/config.toml:7
    hooks.mine.run        x         /home/config.toml:6
    launch.context        true      built-in
    mask.enabled          true      built-in
    notice.after          1m        built-in
    notice.command                  built-in
    notice.how            bell      built-in
    notice.on             off       built-in
    notice.quiet          never     built-in
    statusline.bar_width  10        built-in
    statusline.refresh    2s        built-in
    statusline.template   {project} · {effort} · {model} · {bar} {context} · {cost} · {waiting} · {off} · {wrong}  built-in
    store.keep_bytes      4GiB      built-in
    store.keep_days       7         /home/config.toml:2
    "#);
    }

    #[test]
    fn the_json_has_stable_names() {
        let value = |snapshot: &Snapshot| {
            let all = all_json(snapshot)["values"].take();
            let mut values = all.as_array().into_iter().flatten();
            let named = values.find(|value| value["key"] == "store.keep_days");
            named.map(Json::to_string).unwrap_or_default()
        };
        insta::assert_snapshot!(shown(value), @r#"{"file":"/home/config.toml","key":"store.keep_days","last_good":false,"level":"user","line":2,"value":7,"variable":null}"#);
        let table = |snapshot: &Snapshot| all_json(snapshot)["tables"][0].to_string();
        insta::assert_snapshot!(shown(table), @r#"{"file":"/home/config.toml","key":"hooks.mine","level":"user","line":5,"value":{"on":["Stop"],"run":"x"}}"#);
        let file = |snapshot: &Snapshot| all_json(snapshot)["files"][2].to_string();
        insta::assert_snapshot!(shown(file), @r#"{"exists":true,"file":"/project/.becket/config.toml","level":"project","standing":"not-trusted"}"#);
        let problem = |snapshot: &Snapshot| all_json(snapshot)["problems"][0].to_string();
        insta::assert_snapshot!(shown(problem), @r#"{"column":1,"file":"/home/config.toml","hint":"did you mean store.keep_bytes?","line":3,"message":"unknown key store.keep_byte","place":"/home/config.toml","severity":"warning"}"#);
    }
}
