//! Whether a hook of the person's own starts a file of whatever project a session works in.

use std::path::Path;

use super::line::{Command, HERE, Line, PROJECT, Role, called};
use super::pin::plain;
use super::start::{Words, folders, names_in, place_of, with};
use crate::run::Program;

/// Words of a shell after which a command stands.
const BEFORE: [&str; 15] = [
    "!", "{", "if", "then", "elif", "else", "while", "until", "do", "time", "exec", "command",
    "env", "nohup", ".",
];
/// Programs and words of a shell that start, or read as a program, a file that is named after them.
const STARTERS: [&str; 40] = [
    "sh", "bash", "dash", "zsh", "ksh", "mksh", "ash", "fish", "csh", "tcsh", "busybox", "python",
    "pypy", "node", "deno", "bun", "tsx", "perl", "ruby", "php", "Rscript", "lua", "julia",
    "tclsh", "eval", "source", "timeout", "nice", "xargs", "sudo", "doas", "env", "exec",
    "command", "nohup", "time", "setsid", "stdbuf", "ionice", "parallel",
];
/// These read a file as a program only if an option says so: `awk -f x`.
const BY_OPTION: [&str; 6] = ["awk", "gawk", "mawk", "nawk", "make", "just"];

/// Whether it starts a file that the project brings along. A command that is a path is one, if the
/// path is not absolute. So is every word that names a file of this project, if it has a `/` in it,
/// or if something stands before it that starts files. `from` is where it may run: the project's
/// folder first.
pub fn is_of_the_project(program: &Program, from: &[&Path]) -> bool {
    let line = Line::all_of(program);
    let first = line.commands.first().and_then(|command| command.first());
    // Nothing is expanded in a list.
    let literal = matches!(program, Program::List(_));
    if literal && first.is_some_and(|word| is_relative(&word.text)) {
        return true;
    }
    if line.commands.iter().any(calls_a_path) {
        return true;
    }
    let Some(project) = from.first() else {
        return false;
    };
    let names: Vec<String> = line.commands.iter().flat_map(started_in).collect();
    from.iter()
        .any(|from| is_one_there(&names, program, project, from))
}

/// Whether its command is a path that is not absolute.
fn calls_a_path(command: &Command) -> bool {
    let passed_over =
        |word: &str| word.starts_with('-') || BEFORE.contains(&word) || is_assignment(word);
    let mut words = command.iter().filter(|word| word.role == Role::Said);
    let word = words.find(|word| !passed_over(&word.text));
    word.is_some_and(|word| here(&word.text).is_some_and(|word| is_relative(&word)))
}

/// The names in a command that are started, if there are such files.
fn started_in(command: &Command) -> Vec<String> {
    let (mut starts, mut by_option) = (false, false);
    let mut names = Vec::new();
    for word in command.iter().filter(|word| word.role != Role::Written) {
        let Some(word) = here(&word.text) else {
            // What is started stands elsewhere, and the rest is for it.
            starts = false;
            continue;
        };
        starts |= by_option && word.starts_with("-f");
        let values = word.split('=').chain([&*word]).flat_map(names_in);
        let values = values.filter(|name| starts || name.contains('/'));
        names.extend(values.map(str::to_owned));
        starts |= word == "." || STARTERS.contains(&called(&word));
        by_option |= BY_OPTION.contains(&called(&word));
    }
    names
}

/// Whether one of these is a file of the project, from a folder that the program may go into.
fn is_one_there(names: &[String], program: &Program, project: &Path, from: &Path) -> bool {
    if names.is_empty() {
        return false;
    }
    let (Ok(project), Ok(from)) = (project.canonicalize(), from.canonicalize()) else {
        return false;
    };
    let Some(folders) = folders(&Words::of(program, &project).names, &from, &project) else {
        return true;
    };
    names.iter().any(|name| {
        let mut places = folders.iter().filter_map(|it| place_of(it, name, &project));
        places.any(|place| plain(&project, &place).is_some() && place.is_file())
    })
}

/// A word as it leads on from the folder that it is used in; none if it leads elsewhere, wherever
/// that is.
fn here(word: &str) -> Option<String> {
    let word = with(&with(word, PROJECT, "."), HERE, ".");
    (!word.starts_with(['/', '~', '$'])).then_some(word)
}

fn is_relative(word: &str) -> bool {
    word.contains('/') && !word.starts_with('/')
}

fn is_assignment(word: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
    word.split_once('=')
        .is_some_and(|(name, _)| !name.is_empty() && name.chars().all(plain))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn list(words: &[&str]) -> Program {
        Program::List(words.iter().map(|word| (*word).to_owned()).collect())
    }

    #[test]
    fn a_command_with_a_path_that_is_not_absolute_is_the_projects() {
        let line = |line: &str| is_of_the_project(&Program::Shell(line.to_owned()), &[]);
        for own in [
            "scripts/check",
            "./check --all",
            "  ../check",
            "X=a/b ./check",
            "true && ./check",
            "cd x; if ./check; then echo; fi",
            "exec ./check",
            ". scripts/lib.sh",
            "cat x |\n scripts/check",
            "echo $(./check)",
            "echo \"$(./check)\"",
            "echo `./check`",
            "<in ./check",
            "2>err ./check",
            "env -i A=b ./check",
            "true & ./check",
            "case x in y) ./check;; esac",
            "true # it's\n./check",
            "\"./check\"",
            "\"$CLAUDE_PROJECT_DIR\"/scripts/check",
            "${CLAUDE_PROJECT_DIR}/scripts/check",
            "$PWD/check",
            "sh -c './check'",
            "bash -euc './check'",
            "eval ./check",
            "sh -c \"sh -c './check'\"",
        ] {
            assert!(line(own), "{own}");
        }
        for other in [
            "check src/main.rs",
            "/usr/bin/check ./x",
            "~/bin/check",
            "$HOME/bin/check",
            "\"$HOME\"/bin/check",
            "X=./a check",
            "check > out/file",
            "check 2>&1 src/main.rs",
            "check 2>&1 >out src/main.rs",
            "check &>out src/main.rs",
            "check < in/file",
            "check $(date) src/main.rs",
            "echo './x; ./y'",
            "grep -c src/main.rs",
            "$CLAUDE_PROJECT_DIRECTORY",
            "# ./check",
            "",
        ] {
            assert!(!line(other), "{other}");
        }
        let list = |words: &[&str]| is_of_the_project(&list(words), &[]);
        assert!(list(&["scripts/check"]) && list(&["./x"]) && list(&["~/x"]));
        assert!(list(&["$CLAUDE_PROJECT_DIR/x"]), "nothing is expanded");
        assert!(list(&["bash", "-c", "true && ./x"]) && !list(&["bash", "-c", "x ./y"]));
        assert!(list(&["env", "./x"]) && list(&["sh", "-ce", "./x"]));
        assert!(list(&["sh", "-c", "-e", "./x"]));
        assert!(!list(&["check", "./x"]) && !list(&["/bin/check"]) && !list(&[]));
    }

    #[test]
    fn a_word_that_names_a_file_of_the_project_where_it_is_started_is_the_projects() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        fs::create_dir_all(root.join("project/sub/x")).unwrap();
        for file in [
            "check",
            "lint.py",
            "package.json",
            "sub/other",
            "sub/x/deep",
        ] {
            fs::write(root.join("project").join(file), "").unwrap();
        }
        fs::write(root.join("outside"), "").unwrap();
        let (project, sub) = (root.join("project"), root.join("project/sub"));
        let needs = |program: Program| is_of_the_project(&program, &[&project, &sub]);
        let line = |line: &str| needs(Program::Shell(line.to_owned()));
        for own in [
            "timeout 9 ./check",
            "sh check",
            "bash -e check",
            "python3 lint.py",
            "python3.12 -u lint.py",
            "xargs -n1 ./check",
            "source check",
            "sh < check",
            "awk -f lint.py",
            "awk -flint.py",
            "jq . | tee /dev/null | ./check",
            "run --with=./check",
            "cd sub && tool ./other",
            "tool ./other",
            "tool x/deep",
            "nice sh -c 'exec sh check'",
        ] {
            assert!(line(own), "{own}");
        }
        for other in [
            "cat package.json",
            "sed 's/a/b/' package.json",
            "jq .a/b",
            "awk '{print}' package.json",
            "sh -c 'cat package.json'",
            "python3 ~/hooks/lint.py package.json",
            "python3 /opt/lint.py package.json",
            "jq . > ./check",
            "tool ../outside",
            "tool ./missing",
            "tool ./sub",
            "sh missing",
        ] {
            assert!(!line(other), "{other}");
        }
        for own in [
            &["sh", "check"][..],
            &["sh", "-ce", "./check"],
            &["sh", "-c", "-e", "./check"],
            &["env", "./check"],
            &["timeout", "9", "./check"],
            &["sudo", "sh", "-c", "tool ./check"],
        ] {
            assert!(needs(list(own)), "{own:?}");
        }
        assert!(!needs(list(&["jq", ".a/b", "package.json"])));
    }
}
