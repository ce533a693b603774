//! A name for a command: what its program or script is called.

use becket_engine::run::Program;

use crate::settings::words;

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
/// So common that they say nothing.
const COMMON: [&str; 13] = [
    "echo", "printf", "cat", "true", "false", "test", "say", "touch", "read", "jq", "exit", "cd",
    "date",
];
const EXTENSIONS: [&str; 12] = [
    ".sh", ".bash", ".zsh", ".py", ".js", ".mjs", ".cjs", ".ts", ".rb", ".pl", ".php", ".exe",
];

/// What a hook would be called after its program, on this event.
pub fn of(program: &Program, event: &str) -> String {
    let words = match program {
        Program::List(words) => match &words[..] {
            [shell, option, line] if shell == "bash" && option == "-c" => split(line),
            words => words.to_vec(),
        },
        Program::Shell(line) => split(line),
    };
    let name = valid(&program_of(&words));
    match &*name {
        "" => format!("hook-{}", kebab(event)),
        name if COMMON.contains(&name) => with_event(name, event),
        _ => name,
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

fn program_of(words: &[String]) -> String {
    let mut words = words.iter().map(String::as_str).peekable();
    let mut found = "";
    while let Some(word) = words.next() {
        if is_assignment(word) || word.starts_with('-') {
            // `-m` names a module; the code after `-c` and `-e` has no name.
            match word {
                "-m" => continue,
                "-c" | "-e" => break,
                _ => continue,
            }
        }
        found = word;
        let base = base(word);
        let verbs = RUNNERS.iter().find(|(runner, _)| *runner == base);
        let runs =
            verbs.is_some_and(|(_, verbs)| words.next_if(|next| verbs.contains(next)).is_some());
        if !runs && !STARTERS.contains(&base) && !INTERPRETERS.contains(&base) {
            break;
        }
    }
    base(found).to_owned()
}

fn is_assignment(word: &str) -> bool {
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_are_what_people_would_call_them() {
        let name = |line: &str| of(&Program::Shell(line.to_owned()), "PostToolUse");
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
        assert_eq!(of(&Program::List(list.to_vec()), "Stop"), "lint");
    }

    proptest! {
        #[test]
        fn every_name_is_valid(line in ".{0,60}") {
            let name = of(&Program::Shell(line), "Stop");
            let is_valid = |c: char| matches!(c, 'a'..='z' | '0'..='9' | '-' | '_' | '.');
            prop_assert!(name.starts_with(|c: char| c.is_ascii_alphanumeric()), "{}", name);
            prop_assert!(name.chars().all(is_valid), "{}", name);
        }
    }
}
