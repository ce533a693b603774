//! Files that tell Claude Code what to run, as they would be after a call: its settings, and the files of
//! its commands and skills. Pure.

use std::path::Path;

use becket_wire::json;
use serde_json::Value;

use super::act::{Access, Call, Content};
use super::schema::refused_keys;

/// A file before and after a call that writes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edit {
    pub path: String,
    pub before: String,
    pub after: String,
    /// The call gives the whole file, not a part of it.
    pub is_whole: bool,
    /// The file is not known as it would be: `after` is what the call names of it.
    pub is_unknown: bool,
}

/// A file that an edit makes longer is not judged as a whole, nor one with more edits.
const LONGEST: usize = 4 << 20;
const EDITS: usize = 256;
/// Fields that hold a whole file.
const CONTENT: [&str; 4] = ["content", "contents", "new_source", "file_text"];
/// The folders of commands and skills.
const COMMANDS: [&str; 2] = ["/.claude/commands/", "/.claude/skills/"];
/// Variables in the `env` of settings by which Claude Code leaves hooks out.
pub(super) const WITHOUT_HOOKS: [&str; 3] = [
    "CLAUDE_CODE_SIMPLE",
    "CLAUDE_CODE_SAFE_MODE",
    "CLAUDE_CODE_RESTRICTED",
];

/// Returns true for the settings of Claude Code, by the file's name.
pub fn is_settings(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default();
    name.starts_with("settings") && name.ends_with(".json")
}

/// Returns true for a file in the folder of Claude Code. Other programs have a `settings.json`, too.
pub fn is_claudes(path: &str) -> bool {
    let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
    is_command(path) || folder.ends_with("claude")
}

/// Returns true for the file of a command or a skill.
pub fn is_command(path: &str) -> bool {
    path.ends_with(".md") && COMMANDS.iter().any(|folder| path.contains(folder))
}

/// Returns true for a path where commands and skills are, and for the folder around them.
pub fn may_hold_commands(path: &str) -> bool {
    let is_in = |path: &str| COMMANDS.iter().any(|folder| path.contains(folder));
    path.contains("/.claude") && (path.ends_with("/.claude") || is_in(&format!("{path}/")))
}

impl Edit {
    /// Applies the input of an editing tool to the text of the file, which is empty where there is none, and
    /// `None` where it cannot be read. Where that fails, the file counts as what the input names of it.
    /// Returns an edit for each way to read the input: which of its fields a tool leaves out is not known.
    pub fn all(path: &str, input: &Value, file: Option<&str>) -> Vec<Self> {
        let is_unread = file.is_none();
        let file = file.unwrap_or_default().replace("\r\n", "\n");
        let edit = |before: String, after: String, is_whole: bool| Self {
            path: path.to_owned(),
            before,
            after,
            is_whole,
            is_unknown: is_unread,
        };
        let listed = input.get("edits").and_then(Value::as_array);
        let ways = [
            Some(std::slice::from_ref(input)),
            listed.map(|edits| &**edits),
        ];
        let ways = ways.into_iter().flatten().map(replacements);
        let mut all: Vec<Self> = ways
            .filter(|edits| !edits.is_empty())
            .map(|edits| match applied(&file, &edits) {
                Some(after) => edit(file.clone(), after, false),
                None => Self {
                    is_unknown: is_unread || !file.is_empty(),
                    ..edit(
                        edits.iter().map(|edit| &*edit.old).collect(),
                        edits.iter().map(|edit| &*edit.new).collect(),
                        false,
                    )
                },
            })
            .collect();
        let content = first_text(input, &CONTENT);
        if all.is_empty() || content.is_some() {
            // Of a tool that names the content otherwise, it is all of the input, as text.
            let text = || format!("input {input}").replace("\\\"", "\"");
            all.push(edit(file, content.unwrap_or_else(text), true));
        }
        all
    }

    /// Returns true if an entry of becket's is gone or changed, or hooks are switched off.
    pub fn unregisters(&self, home: &Path) -> bool {
        let after = hooks(&self.after);
        let is_ours = |hook: &&Hook| hook.2.to_string().contains("becket-hook");
        let mut ours = hooks(&self.before).into_iter();
        let is_users = Path::new(&self.path) == home.join(".claude/settings.json");
        switches_off(&self.after)
            || ours.any(|hook| is_ours(&&hook) && !after.contains(&hook))
            || self.is_whole && is_users && !after.iter().any(|hook| is_ours(&hook))
    }

    /// Returns true if Claude Code would refuse the file, which names becket, and so run none of its hooks.
    pub fn breaks_settings(&self) -> bool {
        let refused = |text: &str| parse(text).map_or_else(Vec::new, |it| refused_keys(&it));
        let (before, mut after) = (refused(&self.before), refused(&self.after).into_iter());
        let names_becket = is_settings(&self.path) && self.after.contains("becket");
        names_becket && after.any(|key| !before.contains(&key))
    }

    /// Returns true if Claude Code would run something that it did not run before, or that cannot be known:
    /// a hook, or the inline command of a command file.
    pub fn adds_hook(&self) -> bool {
        if self.is_unknown && is_claudes(&self.path) {
            return true;
        }
        if is_command(&self.path) {
            let before = inline_commands(&self.before);
            let mut after = inline_commands(&self.after).into_iter();
            return after.any(|command| !before.contains(&command));
        }
        let before = hooks(&self.before);
        let is_new = |hook: &Hook| !before.contains(hook);
        is_claudes(&self.path) && hooks(&self.after).iter().any(is_new)
    }
}

/// One replacement in a file.
struct Replacement {
    old: String,
    new: String,
    every: bool,
}

/// The replacements that are asked for; none if one of them is not whole.
fn replacements(edits: &[Value]) -> Vec<Replacement> {
    let replacement = |edit: &Value| {
        Some(Replacement {
            old: first_text(edit, &["old_string", "oldText", "old_str", "oldString"])?,
            new: first_text(edit, &["new_string", "newText", "new_str", "newString"])
                .unwrap_or_default(),
            every: first_true(edit, &["replace_all", "replaceAll"]),
        })
    };
    let edits: Option<Vec<_>> = edits.iter().map(replacement).collect();
    edits.unwrap_or_default()
}

fn first_text(value: &Value, keys: &[&str]) -> Option<String> {
    let mut texts = keys.iter().filter_map(|key| value.get(key)?.as_str());
    texts.next().map(|text| text.replace("\r\n", "\n"))
}

fn first_true(value: &Value, keys: &[&str]) -> bool {
    keys.iter()
        .any(|key| value.get(key) == Some(&Value::Bool(true)))
}

fn applied(file: &str, edits: &[Replacement]) -> Option<String> {
    let edits = Some(edits).filter(|edits| edits.len() <= EDITS)?;
    edits.iter().try_fold(file.to_owned(), |file, edit| {
        replaced(&file, &edit.old, &edit.new, edit.every)
    })
}

/// Replaces a text in the file as Claude Code does. None if it is not there, or the file grows too long.
fn replaced(file: &str, old: &str, new: &str, every: bool) -> Option<String> {
    if old.is_empty() {
        return file.trim().is_empty().then(|| new.to_owned());
    }
    let (mut old, new) = found(file, old, new)?;
    // A line that is taken out goes with its end.
    let line = format!("{old}\n");
    if new.is_empty() && !old.ends_with('\n') && file.contains(&line) {
        old = line;
    }
    let count = if every {
        file.matches(&*old).count()
    } else {
        1
    };
    let fits = file.len() + count * new.len() <= LONGEST;
    fits.then(|| file.replacen(&*old, &new, count))
}

/// Finds the text that Claude Code would take out of the file for `old`, and what it would put there for `new`.
/// It tries the text as it is, with plain quotes, with `\u0041` decoded, and with `\u00e9` for `é`.
fn found(file: &str, old: &str, new: &str) -> Option<(String, String)> {
    if file.contains(old) {
        return Some((old.to_owned(), new.to_owned()));
    }
    if let Some(quoted) = found_by_plain_quotes(file, old) {
        return Some((quoted.to_owned(), with_quotes_of(quoted, new)));
    }
    let plain = decoded(old);
    if plain != old && file.contains(&plain) {
        let new = decoded(&with_quotes_of(&plain, new));
        return Some((plain, new));
    }
    if old.is_ascii() {
        return None;
    }
    let (lower, wanted) = (lower_escapes(file), lower_escapes(&escaped(old)));
    let at = lower.find(&wanted)?;
    // Claude Code has further rules for which of several it takes.
    let is_only = !lower[at + 1..].contains(&wanted);
    is_only.then(|| (file[at..at + wanted.len()].to_owned(), escaped(new)))
}

/// Claude Code takes typographic quotes of the file for plain ones.
fn found_by_plain_quotes<'f>(file: &'f str, old: &str) -> Option<&'f str> {
    let (plain_file, old) = (plain_quotes(file), plain_quotes(old));
    let from = plain_file[..plain_file.find(&old)?].chars().count();
    let offset = |nth: usize| {
        file.char_indices()
            .nth(nth)
            .map_or(file.len(), |(at, _)| at)
    };
    Some(&file[offset(from)..offset(from + old.chars().count())])
}

/// Makes the quotes typographic where those of the file are. Opening and closing ones are the same here:
/// neither ends a string.
fn with_quotes_of(actual: &str, new: &str) -> String {
    let mut new = new.to_owned();
    for (typographic, plain) in [(['“', '”'], '"'), (['‘', '’'], '\'')] {
        if actual.contains(typographic) {
            new = new.replace(plain, &typographic[0].to_string());
        }
    }
    new
}

/// Replaces `é` by `\u00e9`.
fn escaped(text: &str) -> String {
    let mut all = String::with_capacity(text.len());
    for letter in text.chars() {
        if letter.is_ascii() {
            all.push(letter);
            continue;
        }
        for unit in letter.encode_utf16(&mut [0; 2]) {
            all.push_str(&format!("\\u{unit:04x}"));
        }
    }
    all
}

/// Writes the digits of `\u00E9` in lower case.
fn lower_escapes(text: &str) -> String {
    let mut parts = text.split("\\u");
    let mut all = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (digits, rest) = hex_digits(part).unwrap_or(("", part));
        all.extend(["\\u", &digits.to_ascii_lowercase(), rest]);
    }
    all
}

/// Splits the digits of `\u0041` from what follows them.
fn hex_digits(text: &str) -> Option<(&str, &str)> {
    let (digits, rest) = text.split_at_checked(4)?;
    let is_hex = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    is_hex.then_some((digits, rest))
}

fn plain_quotes(text: &str) -> String {
    let text = text.replace(['\u{2018}', '\u{2019}'], "'");
    text.replace(['\u{201c}', '\u{201d}'], "\"")
}

/// An event, the matcher of its group, and the hook.
type Hook = (String, Value, Value);

/// The hooks of a settings file. Of a text that is not JSON, each place that names one.
fn hooks(text: &str) -> Vec<Hook> {
    let Some(settings) = parse(text) else {
        let text = decoded(text);
        let marks = ["becket-hook", "\"hooks\""].into_iter();
        let found = marks.flat_map(|mark| text.matches(mark));
        return found
            .map(|mark| (String::new(), Value::Null, mark.into()))
            .collect();
    };
    let events = settings.get("hooks").and_then(Value::as_object);
    let mut all = Vec::new();
    for (event, groups) in events.into_iter().flatten() {
        for group in groups.as_array().into_iter().flatten() {
            let matcher = group.get("matcher").cloned().unwrap_or_default();
            let hooks = group.get("hooks").and_then(Value::as_array);
            let hooks = hooks.into_iter().flatten().cloned();
            all.extend(hooks.map(|hook| (event.clone(), matcher.clone(), hook)));
        }
    }
    all
}

/// Reads settings. An empty file is an empty object.
pub fn parse(text: &str) -> Option<Value> {
    match text.trim_start_matches('\u{feff}').trim() {
        "" => Some(Value::Null),
        text => json::lenient(text).ok(),
    }
}

/// Returns true if hooks are switched off in this text of a settings file.
pub fn switches_off(text: &str) -> bool {
    match parse(text) {
        Some(settings) => leaves_hooks_out(&settings),
        None => {
            let text = decoded(text);
            let text: String = text.chars().filter(|c| !c.is_whitespace()).collect();
            let mut values = text.split("\"disableAllHooks\":").skip(1);
            values.any(|value| !value.starts_with("false"))
        }
    }
}

/// Replaces `\u0041` by the letter, but not after an escaped backslash.
fn decoded(text: &str) -> String {
    let mut units: Vec<u16> = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        units.extend(rest[..at].encode_utf16());
        rest = &rest[at..];
        let escape = rest.strip_prefix("\\u").and_then(hex_digits);
        let code = escape.and_then(|(digits, _)| u16::from_str_radix(digits, 16).ok());
        let length = match code {
            Some(_) => 6,
            None if rest.starts_with("\\\\") => 2,
            None => 1,
        };
        match code {
            Some(code) => units.push(code),
            None => units.extend(rest[..length].encode_utf16()),
        }
        rest = &rest[length..];
    }
    units.extend(rest.encode_utf16());
    String::from_utf16_lossy(&units)
}

/// Returns true if Claude Code runs no hooks with these settings.
pub fn leaves_hooks_out(settings: &Value) -> bool {
    let mut variables = WITHOUT_HOOKS.iter().filter_map(|name| {
        let value = settings.get("env")?.get(name)?.to_string();
        Some(value.trim_matches('"').trim().to_lowercase())
    });
    // It refuses the whole file for a value that is no boolean.
    let is_off = settings.get("disableAllHooks");
    is_off.is_some_and(|it| *it != Value::Bool(false))
        || variables.any(|value| ["1", "true", "yes", "on"].contains(&&*value))
}

/// The commands that Claude Code runs when it reads the file: in one line, and as a block.
pub fn inline_commands(text: &str) -> Vec<&str> {
    let up_to = |mark: &'static str, end: &'static str| {
        let found = text.match_indices(mark).map(move |(at, _)| &text[at..]);
        found.map(move |rest| {
            let length = rest[mark.len()..].find(end);
            &rest[..length.map_or(rest.len(), |length| mark.len() + length)]
        })
    };
    let line = up_to("!`", "`").chain(up_to("!\\`", "`"));
    line.chain(up_to("```!", "```")).collect()
}

/// Returns true if all that a shell command writes into this file is known text without an inline command, or
/// all is copied: what it is copied from is judged by itself.
pub fn is_harmless(path: &str, call: &Call) -> bool {
    let touches = call.touches.iter();
    let touched = touches.filter(|it| it.access == Access::Write && it.path == path);
    let (mut all, mut texts, mut copies) = (String::new(), 0, 0);
    for (_, content) in call.written.iter().filter(|(file, _)| file == path) {
        match content {
            Content::Text(text) => {
                all.push_str(text);
                texts += 1;
            }
            Content::Copy => copies += 1,
        }
    }
    let count = texts + copies;
    let is_mixed = texts > 0 && copies > 0;
    count > 0 && count == touched.count() && !is_mixed && inline_commands(&all).is_empty()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const OURS: &str =
        r#"{"type": "command", "command": "/x/becket-hook", "args": ["--home", "/h"]}"#;

    fn settings(more: &str) -> String {
        format!(r#"{{"hooks": {{"PreToolUse": [{{"hooks": [{OURS}]}}]}}{more}}}"#)
    }

    /// The edit, where the input can be read in one way only.
    fn only(path: &str, input: &Value, file: &str) -> Edit {
        let [edit] = Edit::all(path, input, Some(file)).try_into().unwrap();
        edit
    }

    /// What an edit of this file does: takes hooks out, adds some.
    fn edited(file: &str, old: &str, new: &str) -> (bool, bool) {
        let input = json!({"old_string": old, "new_string": new});
        let edit = only("/p/.claude/settings.local.json", &input, file);
        (edit.unregisters(Path::new("/home/u")), edit.adds_hook())
    }

    #[test]
    fn settings_are_judged_as_they_would_be() {
        let file = settings(
            r#", "disableAllHooks": false, "enableAllHooks": true, "x": ["“"], "y": "‘", "e": "\u00E9", "z": 0"#,
        );
        for (old, new, expected) in [
            ("\"x\": [", "\"x\": [\"a\", ", (false, false)),
            ("false", "true", (true, false)),
            ("enableAllHooks", "disableAllHooks", (true, false)),
            (
                "\"enableAllHooks\"",
                "\"disable\\u0041llHooks\"",
                (true, false),
            ),
            (
                "\"'\"",
                "1, \"env\": {\"CLAUDE_CODE_SIMPLE\": \"1\"}",
                (true, false),
            ),
            // These quotes become typographic, and the file no JSON.
            ("[\"\"\"]", "[], \"a\": 1", (true, true)),
            ("f\\u0061lse", "\\u0074rue", (true, false)),
            (
                "\"é\", \"z\": 0",
                "\"é\", \"disableAllHooks\": true",
                (true, false),
            ),
            ("\"é\", \"z\": 0", "\"ü\", \"z\": 1", (false, false)),
            ("becket-hook\"", "becket-hook.old\"", (true, true)),
            ("\"/h\"", "\"/tmp/h\"", (true, true)),
            (
                "{\"hooks\": [",
                "{\"matcher\": \"Nothing\", \"hooks\": [",
                (true, true),
            ),
            ("PreToolUse", "Stop", (true, true)),
            ("{\"hooks\": {", "{\"hooks\": {,", (true, true)),
            (
                "[{\"type\"",
                "[{\"type\": \"command\", \"command\": \"x\"}, {\"type\"",
                (false, true),
            ),
        ] {
            assert_eq!(edited(&file, old, new), expected, "{old} → {new}");
        }
        assert_eq!(edited("", "", "{\"permissions\": {}}"), (false, false));
        assert_eq!(edited("", "", &settings("")), (false, true));
        let model = "\"model\": \"b\"";
        assert_eq!(edited("", "not there", model), (false, false));
        assert_eq!(edited("{}", "not there", model), (false, true));
        assert_eq!(edited("{}", "x", "\"disableAllHooks\": true"), (true, true));
    }

    #[test]
    fn settings_that_claude_code_refuses() {
        let file = settings(r#", "model": "a", "disableAllHooks": false"#);
        for (old, new, expected) in [
            ("\"a\"", "5", (false, true)),
            ("\"model\"", "\"tui\"", (false, true)),
            ("\"model\"", "\"language\"", (false, false)),
            ("false", "null", (true, false)),
            ("false", "\"true\"", (true, false)),
        ] {
            let input = json!({"old_string": old, "new_string": new});
            let edit = only("/p/.claude/settings.local.json", &input, &file);
            let found = (
                edit.unregisters(Path::new("/home/u")),
                edit.breaks_settings(),
            );
            assert_eq!(found, expected, "{old} → {new}");
        }
        let breaks = |before: &str, after: &str| {
            let input = json!({"content": after});
            only("/p/.claude/settings.json", &input, before).breaks_settings()
        };
        assert!(!breaks("", "{\"model\": 5}"));
        let broken = settings(", \"model\": 5");
        assert!(breaks("", &broken) && !breaks(&broken, &broken));
        assert!(!switches_off("{\"disableAllHooks\": false, \"x\": 1e999}"));
        assert!(switches_off("{\"disableAllHooks\": 0, \"x\": 1e999}"));
    }

    #[test]
    fn several_edits_and_a_whole_file() {
        let edits = json!({"edits": [{"oldText": "ab", "newText": "enable"}, {"oldText": "enable", "newText": "disable"}]});
        let edit = only("settings.json", &edits, "{\"abAllHooks\": true}");
        assert!(edit.unregisters(Path::new("/home/u")));
        let all = json!({"old_string": "a", "new_string": "b", "replace_all": true});
        assert_eq!(only("x", &all, "a a").after, "b b");
        let quoted = json!({"old_string": "\"a", "new_string": "b", "replace_all": true});
        assert_eq!(only("x", &quoted, "“a ”a “a").after, "b ”a b");
        let line = json!({"old_string": "a", "new_string": "", "replace_all": true});
        assert_eq!(only("x", &line, "a b\na\n").after, "a b\n");
        let whole = |text: &str| {
            let input = json!({"content": text});
            let edit = only("/home/u/.claude/settings.json", &input, &settings(""));
            (edit.unregisters(Path::new("/home/u")), edit.adds_hook())
        };
        assert_eq!(whole(&settings(", \"model\": \"a\"")), (false, false));
        assert_eq!(whole("{}"), (true, false));
        let odd = json!({"path": "x", "body": settings("")});
        let edit = only("/p/.claude/settings.json", &odd, "");
        assert!(edit.adds_hook());
    }

    #[test]
    fn a_field_too_many_hides_nothing() {
        let off = "{\"disableAllHooks\": true}";
        for input in [
            json!({"content": off, "edits": []}),
            json!({"content": off, "old_string": "x", "new_string": ""}),
            json!({"old_string": "false", "new_string": "true", "edits": []}),
            json!({"old_string": "false", "new_string": "true", "content": "{}"}),
            json!({"edits": [{"oldText": "false", "newText": "true"}], "content": "{}"}),
            json!({"edits": [{"oldText": "false", "newText": "true"}], "old_string": "a", "new_string": ""}),
        ] {
            let path = "/p/.claude/settings.json";
            let edits = Edit::all(path, &input, Some("{\"disableAllHooks\": false}"));
            let unregisters = |edit: &Edit| edit.unregisters(Path::new("/home/u"));
            assert!(edits.iter().any(unregisters), "{input}");
        }
    }

    #[test]
    fn escaped_names_in_what_only_claude_code_can_read() {
        let odd = |name: &str, value: &str| format!("{{\"x\": 1e999, \"{name}\": {value}}}");
        assert!(switches_off(&odd("disable\\u0041llHooks", "true")));
        assert!(!switches_off(&odd("disable\\u0041llHooks", "false")));
        assert_eq!(hooks(&odd("\\u0068ooks", "{}")).len(), 1);
        assert_eq!(
            decoded("\\u00e9\\ud83d\\ude00\\\\u0041\\u+123 \\u12 \\u"),
            "é😀\\\\u0041\\u+123 \\u12 \\u"
        );
    }

    #[test]
    fn other_programs_have_settings_too() {
        let hooks = json!({"content": "// x\n{\"hooks\": {}}"});
        assert!(!only("/p/.vscode/settings.json", &hooks, "").adds_hook());
        assert!(only("/p/.claude/settings.json", &hooks, "").adds_hook());
    }

    #[test]
    fn a_command_file_may_run_what_it_ran_before() {
        let edit = |before: &str, after: &str| {
            let path = "/p/.claude/commands/x.md";
            only(path, &json!({ "content": after }), before).adds_hook()
        };
        assert!(!edit("", "Fix it! `now`"));
        assert!(edit("", "It says: !`touch x`"));
        assert!(edit("", "```!\ntouch x\n```"));
        assert!(!edit("a !`ls`", "b !`ls`"));
        assert!(edit("a !`ls`", "a !`rm x`"));
    }
}
