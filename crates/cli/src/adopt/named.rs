//! Entries become named hooks: the same command is one hook where it can be, and never runs twice
//! where Claude Code ran it once. Each has a name, after its program or script.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use becket_engine::hooks::builtin::BuiltIn;
use becket_engine::process::Program;
use becket_engine::trust::names_project_file;

use crate::adopt::wish::{Wish, either};
use crate::settings::{Foreign, Scope, words};

/// A hook as it would stand in becket's config, and the entries that it comes from.
#[derive(Debug, Clone)]
pub struct Named {
    pub name: String,
    pub scope: Scope,
    pub on: Vec<String>,
    pub tools: Option<String>,
    pub program: Program,
    pub timeout: Option<Duration>,
    pub is_async: bool,
    pub notes: Vec<&'static str>,
    pub entries: Vec<Foreign>,
    /// Why it has to stay where it is.
    pub why: Option<Why>,
    /// It stands in the config already, word for word: an adoption broke off between two files.
    pub is_written: bool,
    /// The hook that becket brings along under the name that this command says.
    pub built_in: Option<&'static BuiltIn>,
    /// The built-in is taken in place of the command.
    pub takes_built_in: bool,
}

/// Why a hook cannot be adopted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Why {
    /// Becket could never run it as Claude Code does.
    Never(String),
    /// It would not run: becket is not registered for its events.
    Unregistered(String),
}

impl Why {
    pub fn text(&self) -> &str {
        match self {
            Self::Never(text) | Self::Unregistered(text) => text,
        }
    }
}

/// One entry, and what it wants.
#[derive(Debug, Clone)]
pub struct Read {
    pub scope: Scope,
    pub entry: Foreign,
    pub wish: Result<Wish, String>,
}

/// What tells hooks of one command in one file apart.
type Kind = (Option<String>, Option<Duration>, bool);

impl Named {
    fn kind(&self) -> Kind {
        (self.tools.clone(), self.timeout, self.is_async)
    }

    /// Takes becket's own hook in place of the command. `is_written` says that the config names it.
    pub fn take_built_in(&mut self, built_in: &'static BuiltIn, is_written: bool) {
        self.name = built_in.name.to_owned();
        self.on = built_in.on.iter().map(ToString::to_string).collect();
        self.is_async = false;
        self.is_written = is_written;
        self.takes_built_in = true;
    }

    /// Why it would run only where somebody has said `becket trust`.
    pub fn rests(&self, here: &Path) -> Option<&'static str> {
        match self.scope {
            Scope::User if self.takes_built_in => self
                .built_in
                .filter(|built_in| built_in.starts_project_tools)
                .map(|_| "starts the project's own tools, so it runs only where you trust the project"),
            Scope::User if names_project_file(&self.program, here) => Some(
                "starts a file of the session's project, so it runs only where you trust the project",
            ),
            Scope::User => None,
            Scope::Project | Scope::Local | Scope::Managed => {
                Some("is this project's, and does not run until `becket trust`")
            }
        }
    }

    /// It would be the very same hook in another file.
    fn is_like(&self, other: &Self) -> bool {
        let events = |hook: &Self| hook.on.iter().cloned().collect::<BTreeSet<_>>();
        self.program == other.program
            && self.kind() == other.kind()
            && events(self) == events(other)
    }
}

/// The hooks that these entries make, without names yet, in the order of the files.
pub fn hooks(entries: &[Read]) -> Vec<Named> {
    let mut hooks: Vec<Named> = Vec::new();
    for (wish, scope, entries) in events(entries) {
        let is_same = |hook: &&mut Named| {
            let kind = (wish.tools.clone(), wish.timeout, wish.is_async);
            hook.scope == scope && hook.program == wish.program && hook.kind() == kind
        };
        match hooks.iter_mut().find(is_same) {
            Some(hook) => {
                hook.on.push(wish.event);
                hook.entries.extend(entries);
                let new = |note: &&'static str| !hook.notes.contains(note);
                let notes: Vec<_> = wish.notes.into_iter().filter(new).collect();
                hook.notes.extend(notes);
            }
            None => hooks.push(Named {
                name: String::new(),
                scope,
                on: vec![wish.event],
                tools: wish.tools,
                program: wish.program,
                timeout: wish.timeout,
                is_async: wish.is_async,
                notes: wish.notes,
                entries,
                why: None,
                is_written: false,
                built_in: None,
                takes_built_in: false,
            }),
        }
    }
    let twice: Vec<bool> = hooks
        .iter()
        .map(|hook| runs_twice(hook, &hooks, entries))
        .collect();
    for (hook, _) in hooks.iter_mut().zip(twice).filter(|(_, twice)| *twice) {
        let why = "the same command is registered twice, with different options: Claude Code runs it once, becket would run it twice";
        hook.why = Some(Why::Never(why.to_owned()));
    }
    hooks
}

/// One wish for each command and event of a file: of several registrations Claude Code runs one.
fn events(entries: &[Read]) -> Vec<(Wish, Scope, Vec<Foreign>)> {
    let mut events: Vec<(Wish, Scope, Vec<Foreign>)> = Vec::new();
    for Read { scope, entry, wish } in entries {
        let Ok(wish) = wish else { continue };
        let known = events.iter_mut().find(|(known, in_scope, _)| {
            in_scope == scope && known.event == wish.event && known.program == wish.program
        });
        let Some((known, _, entries)) = known else {
            events.push((wish.clone(), *scope, vec![entry.clone()]));
            continue;
        };
        known.tools = either(known.tools.as_deref(), wish.tools.as_deref());
        known.timeout = known
            .timeout
            .zip(wish.timeout)
            .map(|(one, other)| one.max(other));
        known.is_async &= wish.is_async;
        let new = |note: &&'static str| !known.notes.contains(note);
        let notes: Vec<_> = wish.notes.iter().copied().filter(new).collect();
        known.notes.extend(notes);
        entries.push(entry.clone());
    }
    events
}

/// Whether one of its entries has a fellow that stays, or that would become another hook.
fn runs_twice(hook: &Named, hooks: &[Named], entries: &[Read]) -> bool {
    let meets = |on: &[String]| on.iter().any(|event| hook.on.contains(event));
    let elsewhere = hooks.iter().filter(|other| {
        other.scope != hook.scope && other.program == hook.program && meets(&other.on)
    });
    let commands: Vec<_> = hook.entries.iter().map(command).collect();
    let mut staying = entries.iter().filter(|read| {
        read.wish.is_err()
            && hook.on.contains(&read.entry.event)
            && commands.contains(&command(&read.entry))
    });
    staying.next().is_some() || elsewhere.into_iter().any(|other| !other.is_like(hook))
}

/// What Claude Code takes for the same command.
fn command(entry: &Foreign) -> (Option<&str>, Option<&serde_json::Value>) {
    let field = |name: &str| entry.value.get(name);
    (
        field("command").and_then(|command| command.as_str()),
        field("args"),
    )
}

/// Gives every hook a name that is free; the same hook in two files has one name, so that the
/// config's layers make one of it. `written` knows the name of a hook that is there already.
pub fn name_all(
    hooks: &mut [Named],
    taken: &BTreeSet<String>,
    written: impl Fn(&Named) -> Option<String>,
) {
    let mut taken = taken.clone();
    for nth in 0..hooks.len() {
        let (named, rest) = hooks.split_at_mut(nth);
        let hook = &mut rest[0];
        hook.built_in = BuiltIn::find(&name_of(&hook.program, &hook.on[0]));
        let alike = named.iter().find(|other| other.is_like(hook));
        hook.name = match (written(hook), alike) {
            (Some(name), _) => {
                hook.is_written = true;
                name
            }
            (None, Some(other)) => other.name.clone(),
            (None, None) => free(hook, &taken),
        };
        taken.insert(hook.name.clone());
    }
}

fn free(hook: &Named, taken: &BTreeSet<String>) -> String {
    let event = hook.on.first().map(String::as_str).unwrap_or_default();
    let plain = name_of(&hook.program, event);
    let numbers = (2..).map(|number| format!("{plain}-{number}"));
    let longer = command_of(&hook.program).longer();
    let names = [Some(plain.clone()), longer, Some(with_event(&plain, event))];
    let mut names = names.into_iter().flatten().chain(numbers);
    names
        .find(|name| !taken.contains(name))
        .unwrap_or(plain.clone())
}

/// No name is longer than this.
const LONGEST: usize = 40;

/// They only start what follows them.
const STARTERS: [&str; 12] = [
    "env", "exec", "command", "nohup", "nice", "sudo", "time", "npx", "bunx", "uvx", "pipx", "doas",
];
/// They run a script, or code in an option.
const INTERPRETERS: [&str; 13] = [
    "python", "python2", "python3", "node", "deno", "bun", "ruby", "perl", "php", "sh", "bash",
    "zsh", "tsx",
];
/// They run what their own verb names.
const RUNNERS: [(&str, &[&str]); 8] = [
    ("npm", &["run", "exec", "x"]),
    ("pnpm", &["run", "exec", "dlx"]),
    ("yarn", &["run", "exec", "dlx"]),
    ("bun", &["run", "x"]),
    ("deno", &["run"]),
    ("uv", &["run"]),
    ("pipx", &["run"]),
    ("go", &["run"]),
];
/// Words after which a program's own hook is named: `claudekit-hooks run typecheck-changed`.
const NAMING: [&str; 4] = ["run", "exec", "hook", "hooks"];
/// So common that they say nothing.
const COMMON: [&str; 13] = [
    "echo", "printf", "cat", "true", "false", "test", "say", "touch", "read", "jq", "exit", "cd",
    "date",
];
const EXTENSIONS: [&str; 12] = [
    ".sh", ".bash", ".zsh", ".py", ".js", ".mjs", ".cjs", ".ts", ".rb", ".pl", ".php", ".exe",
];

/// What a hook would be called after its program, on this event.
pub fn name_of(program: &Program, event: &str) -> String {
    let command = command_of(program);
    let name = valid(command.hook.as_deref().unwrap_or(&command.program));
    match &*name {
        "" => format!("hook-{}", kebab(event)),
        name if COMMON.contains(&name) => with_event(name, event),
        _ => name,
    }
}

/// The words of a command that tell what it is.
#[derive(Debug, Default)]
struct Command {
    program: String,
    /// The hook of that program which it names.
    hook: Option<String>,
    /// The first word that the program gets, if that is plain.
    operand: Option<String>,
}

impl Command {
    /// The name with one word more: whose hook it is, else what the program is to do.
    fn longer(&self) -> Option<String> {
        let program = &self.program;
        let owner = program.strip_suffix("-hooks").unwrap_or(program);
        let name = match (&self.hook, &self.operand) {
            (Some(hook), _) => format!("{owner}-{hook}"),
            (None, Some(operand)) => format!("{program}-{operand}"),
            (None, None) => return None,
        };
        Some(valid(&name)).filter(|name| !name.is_empty())
    }
}

fn command_of(program: &Program) -> Command {
    let words = match program {
        Program::List(words) => match &words[..] {
            [shell, option, line] if shell == "bash" && option == "-c" => split(line),
            words => words.to_vec(),
        },
        Program::Shell(line) => split(line),
    };
    let (program, operands) = program_of(&words);
    let plain = |word: &&String| word.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
    let mut operands = operands.iter().filter(|word| !word.starts_with('-'));
    let first = operands.next().filter(plain);
    let hook = first.filter(|word| NAMING.contains(&&***word));
    let hook = hook.and_then(|_| operands.next().filter(plain));
    Command {
        program,
        hook: hook.cloned(),
        operand: first.cloned(),
    }
}

pub fn with_event(name: &str, event: &str) -> String {
    format!("{name}-{}", kebab(event))
}

/// The words of the first command of a line, roughly: a name may be wrong, not missing.
fn split(line: &str) -> Vec<String> {
    if let Some(words) = words(line) {
        return words;
    }
    let end = line
        .find(['|', ';', '&', '\n', '>', '<'])
        .unwrap_or(line.len());
    let strip = |word: &str| word.replace(['"', '\'', '(', ')', '{', '}', '`'], "");
    line[..end].split_whitespace().map(strip).collect()
}

/// The program that a command is about, and the words that follow it.
fn program_of(words: &[String]) -> (String, &[String]) {
    let mut found = "";
    let mut nth = 0;
    while let Some(word) = words.get(nth) {
        nth += 1;
        if is_assignment(word) || word.starts_with('-') {
            // `-m` names a module; the code after `-c` and `-e` has no name.
            match &**word {
                "-c" | "-e" => break,
                _ => continue,
            }
        }
        found = word;
        let base = base(word);
        let verbs = RUNNERS.iter().find(|(runner, _)| *runner == base);
        let next = words.get(nth).map(String::as_str);
        let runs = verbs.is_some_and(|(_, verbs)| next.is_some_and(|it| verbs.contains(&it)));
        if runs {
            nth += 1;
        } else if !STARTERS.contains(&base) && !INTERPRETERS.contains(&base) {
            break;
        }
    }
    (base(found).to_owned(), &words[nth..])
}

/// Returns true if a program runs a script that its first operand names.
pub fn is_interpreter(program: &str) -> bool {
    INTERPRETERS.contains(&base(program))
}

/// Returns true if a shell takes a word before a program as `NAME=value`.
pub fn is_assignment(word: &str) -> bool {
    let name = word.split_once('=').map(|(name, _)| name);
    let is_name = |name: &str| name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    name.is_some_and(|name| !name.is_empty() && is_name(name))
}

/// The last part of a path, without what says in which language it is.
fn base(path: &str) -> &str {
    let name = path
        .trim_end_matches('/')
        .rsplit('/')
        .next()
        .unwrap_or_default();
    let bare = EXTENSIONS.iter().find_map(|end| name.strip_suffix(end));
    bare.filter(|bare| !bare.is_empty()).unwrap_or(name)
}

/// Only letters, digits, `-`, `_` and `.`.
fn valid(name: &str) -> String {
    let mut valid = String::new();
    for c in name.to_lowercase().chars() {
        match c {
            'a'..='z' | '0'..='9' | '_' | '.' => valid.push(c),
            _ if valid.ends_with('-') => {}
            _ => valid.push('-'),
        }
    }
    valid.truncate(LONGEST);
    let valid = valid.trim_start_matches(['-', '.', '_']);
    valid.trim_end_matches(['-', '.']).to_owned()
}

/// `PostToolUse` as `post-tool-use`.
fn kebab(event: &str) -> String {
    let mut kebab = String::new();
    for c in event.chars() {
        if c.is_ascii_uppercase() && !kebab.is_empty() {
            kebab.push('-');
        }
        kebab.push(c.to_ascii_lowercase());
    }
    valid(&kebab)
}

/// `1 3-5`, `all` or `none`.
pub fn numbers(answer: &str, most: usize) -> Option<BTreeSet<usize>> {
    match &*answer.to_lowercase() {
        "" | "none" | "no" | "n" => return Some(BTreeSet::new()),
        "all" | "a" => return Some((1..=most).collect()),
        _ => {}
    }
    let mut numbers = BTreeSet::new();
    for word in answer.split([' ', ',']).filter(|word| !word.is_empty()) {
        let (first, last) = word.split_once('-').unwrap_or((word, word));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        if first == 0 || first > last || last > most {
            return None;
        }
        numbers.extend(first..=last);
    }
    Some(numbers)
}

#[cfg(test)]
mod tests {

    use super::*;

    #[test]
    fn names_are_what_people_would_call_them() {
        let name = |line: &str| name_of(&Program::Shell(line.to_owned()), "PostToolUse");
        for (line, expected) in [
            ("npx prettier --write", "prettier"),
            ("npx -y @biomejs/biome check", "biome"),
            ("python3 scripts/x.py", "x"),
            (
                "python3 -u \"$CLAUDE_PROJECT_DIR\"/.claude/hooks/check_style.py --fast",
                "check_style",
            ),
            ("python -m black .", "black"),
            ("python3 -c 'print(1)'", "python3"),
            ("bash -c 'exit 1'", "bash"),
            ("FOO=1 BAR=2 ~/bin/My.Tool", "my.tool"),
            ("env FOO=1 node ./lint.mjs", "lint"),
            (
                "/usr/bin/env bash $CLAUDE_PROJECT_DIR/.claude/hooks/guard.sh",
                "guard",
            ),
            ("npm run -s lint", "lint"),
            ("pnpm exec eslint .", "eslint"),
            ("uv run ruff check", "ruff"),
            ("bun run hooks/stop.ts", "stop"),
            ("npm test", "npm"),
            ("claudekit-hooks run typecheck-changed", "typecheck-changed"),
            (
                "npx -y claudekit-hooks run lint-changed --quiet",
                "lint-changed",
            ),
            (".claude/hooks/test-changed.sh", "test-changed"),
            ("hail-mary hook", "hail-mary"),
            ("echo hi", "echo-post-tool-use"),
            ("jq -r '.tool_input' | xargs prettier", "jq-post-tool-use"),
            ("cargo fmt && cargo clippy", "cargo"),
            ("Ünïcode/wörter", "w-rter"),
            ("$(touch p)", "touch-post-tool-use"),
            ("&& x", "hook-post-tool-use"),
        ] {
            assert_eq!(name(line), expected, "{line}");
        }
        let list = ["bash", "-c", "npx lint"].map(str::to_owned);
        assert_eq!(name_of(&Program::List(list.to_vec()), "Stop"), "lint");
    }

    #[test]
    fn numbers_are_read_as_people_write_them() {
        let read = |answer: &str| numbers(answer, 5).map(|all| all.into_iter().collect::<Vec<_>>());
        assert_eq!(read(""), Some(vec![]));
        assert_eq!(read("none"), Some(vec![]));
        assert_eq!(read("All"), Some(vec![1, 2, 3, 4, 5]));
        assert_eq!(read("1, 3-5 3"), Some(vec![1, 3, 4, 5]));
        for wrong in [
            "0",
            "6",
            "2-1",
            "1-6",
            "x",
            "1-",
            "-1",
            "99999999999999999999",
        ] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }
}
