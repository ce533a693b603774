//! The files that an agent is given: those of its skill when a window opens, directive files when it
//! touches a folder for the first time. Reads files; the host calls it where that may block.

use std::fs;
use std::path::{Path, PathBuf};

use becket_wire::event::EventName;

use super::skill::Skill;
use super::{EffortContext, MAIN, artifact, recovery};

/// Claude Code takes about 10,000 characters of context and puts longer ones into a file: bytes.
const MAX_TEXT: usize = 9_000;
/// So much of a file that does not fit is given all the same.
const HEAD: usize = 600;
/// Files for one answer.
const MAX_FILES: usize = 20;
/// The folder of directive files.
const FOLDER: &str = ".directives";

/// What was read for one event.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reading {
    pub text: String,
    /// The files in it, absolute.
    pub files: Vec<String>,
}

/// Whether files are to be read for an event.
pub fn is_wanted(context: &EffortContext, event: &EventName) -> bool {
    match event {
        EventName::SessionStart => context.agent == MAIN,
        EventName::SubagentStart => context.agent != MAIN,
        EventName::PostToolUse => !context.touched.is_empty(),
        _ => false,
    }
}

/// Reads what an agent is given with this event. Files of a project that is not trusted are not given.
pub fn read(context: &EffortContext, skill: &Skill, event: &EventName, trusted: bool) -> Reading {
    let facts = &context.facts;
    let root = &facts.project;
    let (text, mut files) = match event {
        EventName::SessionStart => {
            let left = context.left.as_ref();
            let dehydrated = left.and_then(|left| left.dehydrated.as_ref());
            let required = dehydrated.map(|it| it.required_files.clone());
            let files = required.into_iter().flatten();
            let files = files.chain(skill.preload.iter().cloned());
            let files = files.map(|file| root.join(file)).collect();
            (recovery::block(facts, skill, left, trusted), files)
        }
        EventName::SubagentStart => {
            let files = between(root, root, &skill.directives);
            (recovery::for_subagent(facts, skill), files)
        }
        _ => {
            let folders = context.touched.iter();
            let found = folders.flat_map(|folder| between(folder, root, &skill.directives));
            (String::new(), found.collect())
        }
    };
    let known = |file: &PathBuf| context.has.iter().any(|has| Path::new(has) == file);
    files.retain(|file| trusted && !known(file) && is_within(file, root));
    let mut seen = Vec::new();
    files.retain(|file| {
        let is_new = !seen.contains(file);
        seen.push(file.clone());
        is_new
    });
    files.truncate(MAX_FILES);
    with_files(text, &files, root)
}

/// The directive files between a folder and the project root, the root's first.
fn between(folder: &Path, root: &Path, names: &[String]) -> Vec<PathBuf> {
    if !folder.starts_with(root) {
        return Vec::new();
    }
    let above = folder.ancestors().take_while(|at| at.starts_with(root));
    let mut folders: Vec<&Path> = above.collect();
    folders.reverse();
    let mut found = Vec::new();
    for folder in folders {
        let listed = fs::read_dir(folder.join(FOLDER)).into_iter().flatten();
        let mut own: Vec<PathBuf> = listed
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| path.extension().is_some_and(|end| end == "md"))
            .collect();
        own.sort();
        let named = names.iter().map(|name| folder.join(name));
        found.extend(own.into_iter().chain(named.filter(|path| path.is_file())));
    }
    found
}

/// Whether it is a file of the project, links followed.
pub fn is_within(file: &Path, root: &Path) -> bool {
    let (Ok(file), Ok(root)) = (file.canonicalize(), root.canonicalize()) else {
        return false;
    };
    file.is_file() && file.starts_with(root)
}

/// The text and the files after it, each whole if it fits, else its head and its path.
fn with_files(mut text: String, files: &[PathBuf], root: &Path) -> Reading {
    text.truncate(text.floor_char_boundary(MAX_TEXT));
    let mut given = Vec::new();
    for file in files {
        let room = MAX_TEXT.saturating_sub(text.len() + 200);
        let Some(content) = head_of(file, root) else {
            continue;
        };
        let path = file.display();
        if content.len() <= room {
            text.push_str(&format!(
                "\n<file path=\"{path}\">\n{}\n</file>\n",
                content.trim_end()
            ));
        } else if room > 0 {
            let head = &content[..content.floor_char_boundary(HEAD.min(room))];
            text.push_str(&format!(
                "\n<file path=\"{path}\" cut=\"true\">\n{}\n</file>\nRead {path} for the rest.\n",
                head.trim_end()
            ));
        } else {
            break;
        }
        given.push(path.to_string());
    }
    Reading { text, files: given }
}

/// A file's text, as much as could be given of it. A link inside the project may name it.
fn head_of(file: &Path, root: &Path) -> Option<String> {
    artifact::head(root, &file.canonicalize().ok()?, MAX_TEXT * 2).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::effort::EffortFacts;

    #[test]
    fn directives_lie_between_a_folder_and_the_root_and_are_given_once() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let put = |path: &str, text: &str| {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        put(".directives/a.md", "of the root");
        put("src/deep/.directives/b.md", &"long ".repeat(3000));
        put("src/RULES.md", "of src");
        put("src/deep/x.rs", "");
        put("../outside.md", "not ours");
        std::os::unix::fs::symlink(root.join("../outside.md"), root.join(".directives/z.md"))
            .unwrap();
        let skill = Skill {
            directives: vec!["RULES.md".to_owned()],
            ..Skill::default()
        };
        let mut context = EffortContext {
            facts: EffortFacts {
                project: root.clone(),
                ..EffortFacts::default()
            },
            touched: vec![root.join("src/deep"), root.join("src")],
            ..EffortContext::default()
        };
        let given = read(&context, &skill, &EventName::PostToolUse, true);
        let path = |path: &str| root.join(path).display().to_string();
        let all = [
            path(".directives/a.md"),
            path("src/RULES.md"),
            path("src/deep/.directives/b.md"),
        ];
        assert_eq!(given.files, all);
        assert!(given.text.contains("of the root") && given.text.contains("cut=\"true\""));
        assert!(given.text.len() < 10_000 && !given.text.contains("not ours"));
        context.has = given.files;
        let again = read(&context, &skill, &EventName::PostToolUse, true);
        assert_eq!(again, Reading::default());
        context.has.clear();
        let untrusted = read(&context, &skill, &EventName::PostToolUse, false);
        assert_eq!(untrusted, Reading::default());
        fs::remove_file(root.join("../outside.md")).unwrap();
    }
}
