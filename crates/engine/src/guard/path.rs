//! Which paths a tool call touches.

use std::borrow::Cow;
use std::collections::HashMap;
use std::path::{Component, Path, PathBuf};
use std::time::Instant;

use becket_wire::json;
use becket_wire::tool::is_shell;
use serde_json::Value;

use super::act::{Access, Call, TOUCHES, Touch};
use super::command;

#[cfg(test)]
mod tests;

/// As many paths of one call are resolved.
const RESOLVED: usize = 512;
/// As many symlinks are followed for one path.
const LINKS: usize = 40;
/// Fields that hold a command line. Those after the third do so where the tool's name says that it runs one.
const COMMANDS: [&str; 8] = [
    "command",
    "cmd",
    "script",
    "commandLine",
    "command_line",
    "shell_command",
    "input",
    "code",
];

/// Words in the name of a tool that runs command lines.
const RUNS: [&str; 12] = [
    "shell", "bash", "sh", "zsh", "exec", "execute", "run", "command", "cmd", "terminal",
    "process", "script",
];

/// Says that a call touches more paths than are kept.
pub(super) fn too_many_paths() -> String {
    format!("it touches more than {TOUCHES} paths")
}

/// Says that an input has values too deep to be read.
pub fn too_deep() -> String {
    format!("the input is nested deeper than {} levels", json::DEPTH)
}

/// What a tool call would do; follows symlinks until `by`. May block on the file system.
pub fn call(tool: &str, input: &Value, cwd: &Path, home: &Path, by: Instant) -> Call {
    let mut call = words(tool, input, cwd, home);
    let mut folders = Folders {
        cwd: cwd.to_str().unwrap_or_default(),
        real: HashMap::new(),
    };
    for (at, touch) in call
        .touches
        .iter_mut()
        .enumerate()
        .filter(|(_, touch)| touch.path.starts_with('/'))
    {
        let real = if at < RESOLVED {
            folders.real(&touch.path, by)
        } else {
            None
        };
        match real {
            Some(real) => touch.real = (real != touch.path).then_some(real),
            None => touch.opaque = true,
        }
    }
    call
}

/// The same by its words.
fn words(tool: &str, input: &Value, cwd: &Path, home: &Path) -> Call {
    let text = |key: &str| input.get(key).and_then(Value::as_str);
    let place = Place { cwd, home };
    if is_shell(tool)
        && let Some(command) = text("command")
    {
        return run(tool, command, cwd, home);
    }
    let folder = || text("path").unwrap_or(".");
    let touches = match tool {
        "Read" | "NotebookRead" => vec![place.touch(
            text("file_path").or(text("notebook_path")),
            Access::Read,
            false,
        )],
        "Edit" | "MultiEdit" | "Write" | "NotebookEdit" => {
            vec![place.touch(
                text("file_path").or(text("notebook_path")),
                Access::Write,
                false,
            )]
        }
        "LS" => vec![place.touch(Some(folder()), Access::List, false)],
        "Grep" => {
            let glob =
                text("glob").map(|glob| place.below(folder(), &format!("**/{glob}"), Access::Read));
            vec![place.touch(Some(folder()), Access::Read, true), glob]
        }
        "Glob" => {
            let pattern = text("pattern").unwrap_or("*");
            vec![Some(place.below(folder(), pattern, Access::List))]
        }
        _ => return shaped(tool, input, &place),
    };
    Call {
        touches: touches.into_iter().flatten().collect(),
        ..Call::default()
    }
}

/// Reads a command line. Of a tool that may mean something else by it than Bash does, a syntax error counts
/// for nothing.
fn run(tool: &str, line: &str, cwd: &Path, home: &Path) -> Call {
    let read = command::read(line, cwd, home);
    let is_known = ["Bash", "Monitor"].contains(&tool) || !read.is_broken;
    Call {
        acts: read.acts,
        touches: read.touches,
        unread: if is_known { read.unread } else { Vec::new() },
        written: read.written,
    }
}

/// What a path is relative to.
struct Place<'p> {
    cwd: &'p Path,
    home: &'p Path,
}

impl Place<'_> {
    fn absolute(&self, text: &str) -> String {
        match text.strip_prefix('~') {
            Some(rest) if rest.is_empty() || rest.starts_with('/') => {
                normal(&self.home.join(rest.trim_start_matches('/')))
            }
            _ => normal(&self.cwd.join(text)),
        }
    }

    fn touch(&self, text: Option<&str>, access: Access, recursive: bool) -> Option<Touch> {
        let text = text.filter(|text| !text.is_empty())?;
        let path = self.absolute(text);
        Some(Touch {
            path,
            real: None,
            access,
            recursive,
            opaque: false,
            act: None,
        })
    }

    fn below(&self, folder: &str, pattern: &str, access: Access) -> Touch {
        let path = if pattern.starts_with(['/', '~']) {
            self.absolute(pattern)
        } else {
            normal(&Path::new(&self.absolute(folder)).join(pattern))
        };
        Touch {
            path,
            real: None,
            access,
            recursive: false,
            opaque: false,
            act: None,
        }
    }
}

/// What the input of an unknown tool tells by the names of its fields.
fn shaped(tool: &str, input: &Value, place: &Place) -> Call {
    let name = tool.rsplit("__").next().unwrap_or(tool);
    let verbs = name_words(name);
    let has = |names: &[&str]| verbs.iter().any(|verb| names.contains(&verb.as_str()));
    let mut call = Call::default();
    if let Some(script) = command_line(tool, input) {
        let folder = [
            "cwd",
            "workdir",
            "working_directory",
            "workingDirectory",
            "directory",
            "dir",
        ]
        .iter()
        .find_map(|key| input.get(*key).and_then(Value::as_str));
        let cwd = folder.map_or_else(
            || place.cwd.to_path_buf(),
            |folder| PathBuf::from(place.absolute(folder)),
        );
        call = run(tool, &script, &cwd, place.home);
    }
    let moves = has(&["move", "rename", "mv"]);
    let copies = has(&["copy", "cp"]);
    let access = if has(&[
        "delete", "remove", "rm", "unlink", "trash", "purge", "erase",
    ]) {
        Access::Delete
    } else if has(&[
        "write", "create", "edit", "update", "save", "append", "put", "insert", "patch", "replace",
        "modify",
    ]) || has(&["mkdir", "touch", "overwrite", "apply", "set", "chmod"])
    {
        Access::Write
    } else if has(&["list", "ls", "tree", "dir", "stat", "info", "glob"]) {
        Access::List
    } else if !has(&[
        "read", "get", "view", "cat", "open", "load", "search", "grep", "find",
    ]) && ["content", "contents", "new_string", "newText", "edits"]
        .iter()
        .any(|key| input.get(*key).is_some())
    {
        Access::Write
    } else {
        Access::Read
    };
    let recursive = input
        .get("recursive")
        .and_then(Value::as_bool)
        .unwrap_or(access == Access::Delete);
    let mut too_many = false;
    let is_whole = fields("", input, json::DEPTH, &mut |key, text| {
        let role = role(key, text);
        let access = match role {
            Role::None => return,
            Role::Out => Access::Write,
            Role::Sent => Access::Read,
            Role::From if moves => Access::Delete,
            Role::From if copies => Access::Read,
            Role::To if moves || copies => Access::Write,
            Role::From | Role::To if !text.contains(['/', '.', '~']) => return,
            _ => access,
        };
        too_many |= call.touches.len() >= TOUCHES;
        if too_many {
            return;
        }
        let path = decoded(text.strip_prefix("file://").unwrap_or(text));
        call.touches.extend(place.touch(
            Some(&path),
            access,
            recursive && access == Access::Delete,
        ));
    });
    call.unread.extend((!is_whole).then(too_deep));
    call.unread.extend(too_many.then(too_many_paths));
    call
}

/// Calls `with` for each text in the input, with the key that it stands under. Returns false if there are
/// values below `depth` levels.
fn fields(key: &str, value: &Value, depth: usize, with: &mut impl FnMut(&str, &str)) -> bool {
    let mut is_whole = true;
    match value {
        Value::String(text) => with(key, text),
        Value::Array(_) | Value::Object(_) if depth == 0 => return false,
        Value::Array(values) => {
            for value in values {
                is_whole &= fields(key, value, depth - 1, with);
            }
        }
        Value::Object(map) => {
            for (key, value) in map {
                is_whole &= fields(key, value, depth - 1, with);
            }
        }
        _ => {}
    }
    is_whole
}

enum Role {
    None,
    Path,
    From,
    To,
    /// Where something is saved.
    Out,
    /// A file that goes with a message.
    Sent,
}

fn role(key: &str, text: &str) -> Role {
    if text.len() > 4096
        || text.contains('\n')
        || text.contains("://") && !text.starts_with("file://")
    {
        return Role::None;
    }
    let key: String = key
        .chars()
        .filter(char::is_ascii_alphanumeric)
        .map(|c| c.to_ascii_lowercase())
        .collect();
    let ends = [
        "path",
        "paths",
        "file",
        "files",
        "filename",
        "dir",
        "directory",
        "folder",
        "uri",
    ];
    match key.as_str() {
        "source" | "src" | "from" | "oldpath" | "sourcepath" | "frompath" => Role::From,
        "destination" | "dest" | "target" | "to" | "newpath" | "destinationpath" | "topath"
        | "targetpath" => Role::To,
        "attachment" | "attachments" => Role::Sent,
        "url" if text.starts_with("file://") => Role::Path,
        "outdir" | "outputdir" | "outfile" | "outputfile" | "outpath" | "outputpath" => Role::Out,
        key if ends.iter().any(|end| key.ends_with(end)) => Role::Path,
        _ => Role::None,
    }
}

/// The command lines that the input of a tool holds.
pub(super) fn command_line<'i>(tool: &str, input: &'i Value) -> Option<Cow<'i, str>> {
    let command = input.get("command").and_then(Value::as_str);
    if is_shell(tool) && command.is_some() {
        return command.map(Cow::Borrowed);
    }
    let verbs = name_words(tool.rsplit("__").next().unwrap_or(tool));
    let keys = match tool {
        // Its script is JavaScript, which can only start agents.
        "Workflow" => &[][..],
        _ if verbs.iter().any(|verb| RUNS.contains(&&**verb)) => &COMMANDS[..],
        _ => &COMMANDS[..3],
    };
    script(input, keys).map(Cow::Owned)
}

/// The command lines that these fields of an input hold.
fn script(input: &Value, keys: &[&str]) -> Option<String> {
    let words = |value: &Value| match value {
        Value::String(text) => Some(text.clone()),
        Value::Array(words) => shlex::try_join(words.iter().filter_map(Value::as_str)).ok(),
        _ => None,
    };
    let lines = keys
        .iter()
        .filter_map(|key| input.get(*key).and_then(words));
    let mut lines: Vec<String> = lines.collect();
    let line = lines.first_mut()?;
    if let Some(args @ Value::Array(_)) = input.get("args").or(input.get("arguments")) {
        line.push(' ');
        line.push_str(&words(args)?);
    }
    Some(lines.join("\n"))
}

/// `readTextFile`, `read_text_file`, `read-text-file` → `read text file`
fn name_words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut lower = false;
    for c in name.chars() {
        if !c.is_alphanumeric() || c.is_uppercase() && lower {
            words.push(String::new());
        }
        lower = c.is_lowercase();
        if let Some(word) = words.last_mut().filter(|_| c.is_alphanumeric()) {
            word.extend(c.to_lowercase());
        }
    }
    words
}

/// `%20` → ` `
fn decoded(text: &str) -> String {
    if !text.contains('%') {
        return text.to_owned();
    }
    let bytes = text.as_bytes();
    let mut plain = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let code = text
            .get(at + 1..at + 3)
            .and_then(|hex| u8::from_str_radix(hex, 16).ok());
        match code {
            Some(code) if bytes[at] == b'%' => {
                plain.push(code);
                at += 3;
            }
            _ => {
                plain.push(bytes[at]);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&plain).into_owned()
}

/// A path with `.` and `..` resolved by its words.
pub(super) fn normal(path: &Path) -> String {
    let text = path.to_string_lossy();
    let mut parts: Vec<&str> = Vec::with_capacity(16);
    for part in text.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    let mut normal = String::with_capacity(text.len() + 1);
    for part in &parts {
        normal.push('/');
        normal.push_str(part);
    }
    if normal.is_empty() {
        normal.push('/');
    }
    normal
}

/// Folders that were resolved: most paths are in one of them, or below the working folder.
struct Folders<'c> {
    cwd: &'c str,
    real: HashMap<String, PathBuf>,
}

impl Folders<'_> {
    /// The path with symlinks followed as far as it exists. None if it takes too long.
    fn real(&mut self, path: &str, by: Instant) -> Option<String> {
        let (folder, name) = path.rsplit_once('/')?;
        let real = follow(self.folder(folder, by)?, Path::new(name), by, |_| ())?;
        real.into_os_string().into_string().ok()
    }

    fn folder(&mut self, folder: &str, by: Instant) -> Option<PathBuf> {
        if let Some(real) = self.real.get(folder) {
            return Some(real.clone());
        }
        let below = folder.strip_prefix(self.cwd);
        let real = match below.and_then(|rest| rest.strip_prefix('/')) {
            Some(rest) => follow(self.folder(self.cwd, by)?, Path::new(rest), by, |_| ())?,
            None => follow(PathBuf::from("/"), Path::new(folder), by, |_| ())?,
        };
        self.real.insert(folder.to_owned(), real.clone());
        Some(real)
    }
}

/// `rest` below `base`, each symlink replaced by its target, also one that points nowhere. Calls `passes` with
/// each place on the way.
pub(crate) fn follow(
    mut base: PathBuf,
    rest: &Path,
    by: Instant,
    mut passes: impl FnMut(&Path),
) -> Option<PathBuf> {
    let mut open: Vec<PathBuf> = vec![rest.to_path_buf()];
    let mut links = 0;
    let mut exists = true;
    while let Some(path) = open.pop() {
        let mut parts = path.components();
        let Some(part) = parts.next() else { continue };
        let later = parts.as_path();
        if !later.as_os_str().is_empty() {
            open.push(later.to_path_buf());
        }
        match part {
            Component::RootDir | Component::Prefix(_) => base = PathBuf::from("/"),
            Component::CurDir => {}
            Component::ParentDir => {
                base.pop();
            }
            Component::Normal(name) => {
                base.push(name);
                passes(&base);
                if !exists {
                    continue;
                }
                if Instant::now() >= by {
                    return None;
                }
                match std::fs::read_link(&base) {
                    Ok(target) => {
                        links += 1;
                        if links > LINKS {
                            return None;
                        }
                        base.pop();
                        open.push(target);
                    }
                    // Not a link, if there is anything.
                    Err(error) => exists = error.kind() != std::io::ErrorKind::NotFound,
                }
            }
        }
    }
    Some(base)
}
