//! Names hooks after their program or script.

use std::collections::BTreeSet;

use becket_engine::hooks::builtin::BuiltIn;
use becket_engine::process::Program;

use crate::adopt::candidate::HookCandidate;
use crate::settings::words;

/// Gives every hook a free name. The same hook in two files has one name, so that the layers of the
/// config make one hook of it. `written` returns the name of a hook that the config has already.
pub fn name_all(
    hooks: &mut [HookCandidate],
    taken: &BTreeSet<String>,
    written: impl Fn(&HookCandidate) -> Option<String>,
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
            (None, None) => free_name(hook, &taken),
        };
        taken.insert(hook.name.clone());
    }
}

fn free_name(hook: &HookCandidate, taken: &BTreeSet<String>) -> String {
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

/// The length limit of a name.
const LONGEST: usize = 40;

/// Programs that only start the program that follows.
const STARTERS: [&str; 12] = [
    "env", "exec", "command", "nohup", "nice", "sudo", "time", "npx", "bunx", "uvx", "pipx", "doas",
];
/// Programs that run a script, or code in an option.
const INTERPRETERS: [&str; 13] = [
    "python", "python2", "python3", "node", "deno", "bun", "ruby", "perl", "php", "sh", "bash",
    "zsh", "tsx",
];
/// Programs that run the program after their verb, with these verbs.
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
/// Words that a hook of the program follows: `claudekit-hooks run typecheck-changed`.
const HOOK_VERBS: [&str; 4] = ["run", "exec", "hook", "hooks"];
/// Programs that are too common for a name.
const COMMON: [&str; 13] = [
    "echo", "printf", "cat", "true", "false", "test", "say", "touch", "read", "jq", "exit", "cd",
    "date",
];
const EXTENSIONS: [&str; 12] = [
    ".sh", ".bash", ".zsh", ".py", ".js", ".mjs", ".cjs", ".ts", ".rb", ".pl", ".php", ".exe",
];

/// Returns the name of a hook on this event after its program.
fn name_of(program: &Program, event: &str) -> String {
    let command = command_of(program);
    let name = valid(command.hook.as_deref().unwrap_or(&command.program));
    match &*name {
        "" => format!("hook-{}", kebab(event)),
        name if COMMON.contains(&name) => with_event(name, event),
        _ => name,
    }
}

/// The words of a command that a name can come from.
#[derive(Debug, Default)]
struct CommandWords {
    program: String,
    /// The hook of the program that the command runs.
    hook: Option<String>,
    /// The first operand, if it is plain.
    operand: Option<String>,
}

impl CommandWords {
    /// Returns the name with one more word: the owner of the hook, or else the operand.
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

fn command_of(program: &Program) -> CommandWords {
    let words = match program {
        Program::List(words) => match &words[..] {
            [shell, option, line] if shell == "bash" && option == "-c" => split(line),
            words => words.to_vec(),
        },
        Program::Shell(line) => split(line),
    };
    let (program, operands) = program_of(&words);
    let mut operands = operands.iter().filter(|word| !word.starts_with('-'));
    let first = operands.next().filter(|word| is_plain(word));
    let hook = first.filter(|word| HOOK_VERBS.contains(&&***word));
    let hook = hook.and_then(|_| operands.next().filter(|word| is_plain(word)));
    CommandWords {
        program,
        hook: hook.cloned(),
        operand: first.cloned(),
    }
}

fn is_plain(word: &str) -> bool {
    word.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
}

fn with_event(name: &str, event: &str) -> String {
    format!("{name}-{}", kebab(event))
}

/// Returns the words of the first command of a line, roughly: a name may be wrong, but not missing.
fn split(line: &str) -> Vec<String> {
    if let Some(words) = words(line) {
        return words;
    }
    let command = line.split(['|', ';', '&', '\n', '>', '<']).next();
    let words = command.unwrap_or_default().split_whitespace();
    words
        .map(|word| word.replace(['"', '\'', '(', ')', '{', '}', '`'], ""))
        .collect()
}

/// Returns the program that a command runs in the end, and the words that follow it.
fn program_of(words: &[String]) -> (String, &[String]) {
    let mut program = "";
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
        program = word;
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
    (base(program).to_owned(), &words[nth..])
}

/// Returns true if a program runs a script that its first operand names.
pub fn is_interpreter(program: &str) -> bool {
    INTERPRETERS.contains(&base(program))
}

/// Returns true if a shell takes a word before a program as `NAME=value`.
pub fn is_assignment(word: &str) -> bool {
    let Some((name, _)) = word.split_once('=') else {
        return false;
    };
    let mut characters = name.chars();
    !name.is_empty() && characters.all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// Returns the last part of a path, without the extension of a script.
fn base(path: &str) -> &str {
    let path = path.trim_end_matches('/');
    let name = path.rsplit('/').next().unwrap_or_default();
    let bare = EXTENSIONS.iter().find_map(|end| name.strip_suffix(end));
    bare.filter(|bare| !bare.is_empty()).unwrap_or(name)
}

/// Returns a name with only letters, digits, `-`, `_` and `.`.
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

/// Writes `PostToolUse` as `post-tool-use`.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hooks_are_named_after_their_programs() {
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
}
