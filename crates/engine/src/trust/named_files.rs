//! Finds the files of a project that the words of a program name. Words are split as shlex does; no program is
//! known by name, and the programs that a file starts in turn are not followed.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::matcher::normalized;
use crate::process::Program;

/// The spellings of the project folder in a command line, and of the folder that it runs in.
const PROJECT: [&str; 2] = ["${CLAUDE_PROJECT_DIR}", "$CLAUDE_PROJECT_DIR"];
const HERE: [&str; 2] = ["${PWD}", "$PWD"];
/// The characters that end a word in a shell besides blanks.
const OPERATORS: [char; 8] = [';', '|', '&', '(', ')', '<', '>', '`'];
/// The length up to which a word can be a path.
const LONGEST_WORD: usize = 1024;
const LONGEST_NAME: usize = 255;

/// A path that a word of a program may mean.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct NamedPath {
    pub(super) word: String,
    pub(super) path: PathBuf,
}

/// Returns true if a program is a file of the project, or a word of it with a `/` names one from its root.
/// Absolute paths are the user's own choice.
pub fn names_project_file(program: &Program, project: &Path) -> bool {
    let first = match program {
        Program::Shell(line) => split(line).into_iter().next(),
        Program::List(words) => words.first().cloned(),
    };
    first.is_some_and(|word| is_project_path(&word, program))
        || names_file_in(program, project, project)
}

fn is_project_path(word: &str, program: &Program) -> bool {
    if after(word, PROJECT).or_else(|| after(word, HERE)).is_some() {
        return true;
    }
    let is_expanded = word.starts_with(['~', '$']) && matches!(program, Program::Shell(_));
    word.contains('/') && !word.starts_with('/') && !is_expanded
}

/// Returns true if a word with a `/` names a file of the project, seen from that folder. A bare word does not
/// count: a repository could stop a hook that runs `grep -q psql` by a file of that name.
pub(super) fn names_file_in(program: &Program, from: &Path, project: &Path) -> bool {
    files(program, from, project).any(|it| it.word.contains('/') && it.path.starts_with(project))
}

/// Returns the files that words of the program name, other than by an absolute path.
pub(super) fn files(
    program: &Program,
    from: &Path,
    project: &Path,
) -> impl Iterator<Item = NamedPath> + use<> {
    places(program, from, project)
        .into_iter()
        .filter(|it| !it.word.starts_with('/') && it.path.is_file())
}

/// Returns every path that a word of the program may mean: in `from`, and in each folder that another word names
/// from there (`cd web && ./check`).
pub(super) fn places(program: &Program, from: &Path, project: &Path) -> BTreeSet<NamedPath> {
    let words = words(program);
    let mut folders = BTreeSet::from([from.to_path_buf()]);
    folders.extend(
        words
            .iter()
            .filter(|word| !word.starts_with('/'))
            .map(|word| place(word, from, project))
            .filter(|path| path.is_dir()),
    );
    let mut places = BTreeSet::new();
    for word in &words {
        places.extend(folders.iter().map(|folder| NamedPath {
            path: place(word, folder, project),
            word: word.clone(),
        }));
    }
    places
}

fn place(word: &str, folder: &Path, project: &Path) -> PathBuf {
    let path = match (after(word, PROJECT), after(word, HERE)) {
        (Some(rest), _) => project.join(rest),
        (_, Some(rest)) => folder.join(rest),
        _ => folder.join(word),
    };
    normalized(&path)
}

/// Returns the rest of a word that begins with a variable.
fn after<'a>(word: &'a str, variable: [&str; 2]) -> Option<&'a str> {
    let rest = variable.iter().find_map(|it| word.strip_prefix(it))?;
    match rest.strip_prefix('/') {
        Some(rest) => Some(rest.trim_start_matches('/')),
        None => rest.is_empty().then_some(rest),
    }
}

/// Returns true if a line begins with `cd "$CLAUDE_PROJECT_DIR"`, and so runs at the project's root.
pub(super) fn starts_at_root(program: &Program) -> bool {
    let Program::Shell(line) = program else {
        return false;
    };
    let mut words = split(line).into_iter();
    words.next().is_some_and(|word| word == "cd")
        && words
            .next()
            .is_some_and(|word| after(&word, PROJECT) == Some(""))
}

/// Returns the words of a program, the words of a line in it (`sh -c '…'`), and the texts after a `=`.
fn words(program: &Program) -> BTreeSet<String> {
    let mut rest = match program {
        Program::Shell(line) => split(line),
        Program::List(words) => words.clone(),
    };
    let mut all = BTreeSet::new();
    while let Some(word) = rest.pop() {
        if all.contains(&word) {
            continue;
        }
        all.extend(word.rsplit_once('=').map(|(_, value)| value.to_owned()));
        if word.contains(ends_word) {
            rest.extend(split(&word));
        }
        all.insert(word);
    }
    all.retain(|word| may_be_file(word));
    all
}

fn may_be_file(word: &str) -> bool {
    (1..=LONGEST_WORD).contains(&word.len())
        && !word.contains('\0')
        && word.split('/').all(|it| it.len() <= LONGEST_NAME)
}

fn ends_word(c: char) -> bool {
    c.is_whitespace() || OPERATORS.contains(&c)
}

/// Splits a line into words, without the files that it only writes (`> x`).
fn split(line: &str) -> Vec<String> {
    let mut pieces = line.split('>');
    let mut line = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let piece = piece.trim_start_matches(['|', '&', ' ', '\t']);
        let end = piece.find(ends_word).unwrap_or(piece.len());
        line.push(' ');
        line.push_str(&piece[end..]);
    }
    let line = line.replace(OPERATORS, " ");
    shlex::split(&line).unwrap_or_else(|| {
        let words = line.split_whitespace();
        words
            .map(|word| word.trim_matches(['"', '\'']).to_owned())
            .collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_those_of_a_shell() {
        for (line, expected) in [
            ("true;./check a", "./check a true"),
            ("sh -c \"sh -c './check'\"", "-c ./check sh"),
            ("X=./a tool --file=b/c", "--file=b/c ./a X=./a b/c tool"),
            (
                "echo $(./check) `x` 2>&1 >>out <in",
                "$ ./check 2 echo in x",
            ),
            ("\"$CLAUDE_PROJECT_DIR\"/x # no", "$CLAUDE_PROJECT_DIR/x"),
            ("it's ./x", "./x it's"),
        ] {
            let words = words(&Program::Shell(line.to_owned()));
            let words = words.iter().filter(|word| !word.contains(' '));
            let words: Vec<&str> = words.map(String::as_str).collect();
            assert_eq!(words.join(" "), expected, "{line}");
        }
    }

    #[test]
    fn a_variable_counts_only_as_a_whole() {
        let place = |word: &str| place(word, Path::new("/p/sub"), Path::new("/p"));
        for (word, expected) in [
            ("${CLAUDE_PROJECT_DIR}/x", "/p/x"),
            ("$PWD/../x", "/p/x"),
            ("$CLAUDE_PROJECT_DIRX/x", "/p/sub/$CLAUDE_PROJECT_DIRX/x"),
            ("/x", "/x"),
        ] {
            assert_eq!(place(word), Path::new(expected));
        }
    }
}
