//! What a window leaves to the next: the dehydrated context as the agent writes it, and the recovery block
//! that a fresh window is given.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use becket_wire::effort::{Artifact, Dehydrated, MAX_REQUIRED_FILES};
use serde_json::Value;

use super::directive::is_within;
use super::skill::Skill;
use super::{EffortFacts, Left, artifact};

/// A dehydrated context has to fit into what Claude Code takes at once, with the files after it: bytes.
const MAX_DEHYDRATED: usize = 6_000;
/// Of the log, and of a plan or debrief, where there is no dehydrated context: bytes.
const LOG_TAIL: usize = 2_000;
const PLAN_HEAD: usize = 2_500;
/// Files last touched that are named.
const TOUCHED: usize = 10;

/// The sections, as JSON names them.
const SECTIONS: [&str; 5] = [
    "summary",
    "lastAction",
    "nextSteps",
    "handoverInstructions",
    "requiredFiles",
];

/// Reads a dehydrated context, JSON or Markdown. The error says what is wrong.
pub fn parse(text: &str) -> Result<Dehydrated, String> {
    let text = text.trim();
    if text.len() > MAX_DEHYDRATED {
        let len = text.len();
        return Err(format!(
            "the dehydrated context has {len} bytes; at most {MAX_DEHYDRATED} fit into a fresh window. Name files instead of quoting them"
        ));
    }
    let fenced = text.strip_prefix("```json").or(text.strip_prefix("```"));
    let inner = fenced.and_then(|text| text.strip_suffix("```"));
    let inner = inner.unwrap_or(text).trim();
    let read = match inner.starts_with('{') {
        true => from_json(inner)?,
        false => from_markdown(text)?,
    };
    for (name, value) in [("summary", &read.summary), ("nextSteps", &read.next_steps)] {
        if value.trim().is_empty() {
            return Err(format!("the dehydrated context has no {name}"));
        }
    }
    let count = read.required_files.len();
    if count > MAX_REQUIRED_FILES {
        return Err(format!(
            "the dehydrated context names {count} required files; at most {MAX_REQUIRED_FILES} are taken"
        ));
    }
    Ok(read)
}

fn from_json(text: &str) -> Result<Dehydrated, String> {
    let read: Value = serde_json::from_str(text)
        .map_err(|why| format!("the dehydrated context is not JSON: {why}"))?;
    let field = |name: &str| match read.get(name) {
        None | Some(Value::Null) => Ok(String::new()),
        Some(Value::String(text)) => Ok(text.clone()),
        Some(Value::Array(items)) => items
            .iter()
            .map(|item| item.as_str().map(|item| format!("- {item}")))
            .collect::<Option<Vec<_>>>()
            .map(|lines| lines.join("\n"))
            .ok_or_else(|| format!("{name} is a list of other things than texts")),
        Some(_) => Err(format!("{name} is neither a text nor a list of texts")),
    };
    let files = match read.get("requiredFiles") {
        None | Some(Value::Null) => Vec::new(),
        Some(files) => serde_json::from_value(files.clone())
            .map_err(|_| "requiredFiles is no list of paths".to_owned())?,
    };
    Ok(Dehydrated {
        summary: field("summary")?,
        last_action: field("lastAction")?,
        next_steps: field("nextSteps")?,
        handover_instructions: field("handoverInstructions")?,
        required_files: files,
    })
}

/// Headings name the sections: `## Last action`.
fn from_markdown(text: &str) -> Result<Dehydrated, String> {
    let plain = |text: &str| {
        let letters = text.chars().filter(char::is_ascii_alphanumeric);
        letters.collect::<String>().to_ascii_lowercase()
    };
    let mut parts = vec![String::new(); SECTIONS.len()];
    let mut section = None;
    for line in text.lines() {
        let heading = line.strip_prefix('#').map(plain);
        let named = heading.and_then(|heading| {
            (SECTIONS.iter()).position(|name| name.to_ascii_lowercase() == heading)
        });
        match (named, section) {
            (Some(named), _) => section = Some(named),
            (None, Some(section)) => {
                let part: &mut String = &mut parts[section];
                part.push_str(line);
                part.push('\n');
            }
            (None, None) => {}
        }
    }
    if section.is_none() {
        return Err(format!(
            "the dehydrated context is neither JSON nor Markdown with headings ({})",
            SECTIONS.join(", ")
        ));
    }
    let file = |line: &str| {
        let path = line
            .trim()
            .trim_start_matches(['-', '*', ' '])
            .trim_matches('`');
        (!path.is_empty()).then(|| path.to_owned())
    };
    let part = |nth: usize| parts[nth].trim().to_owned();
    Ok(Dehydrated {
        summary: part(0),
        last_action: part(1),
        next_steps: part(2),
        handover_instructions: part(3),
        required_files: parts[4].lines().filter_map(file).collect(),
    })
}

/// Whether the files that it names are there and of the project. Reads the file system.
pub fn check_files(dehydrated: &Dehydrated, project: &Path) -> Result<(), String> {
    for name in &dehydrated.required_files {
        let file = project.join(name);
        if !file.is_file() {
            return Err(format!("requiredFiles: there is no file {name}"));
        }
        if !is_within(&file, project) {
            return Err(format!("requiredFiles: {name} is outside the project"));
        }
    }
    Ok(())
}

/// What a fresh window of the main agent is given, but for files. `left` is none in the effort's first window.
/// The text of an artifact is given only if becket made the file, or the project is trusted.
pub fn block(facts: &EffortFacts, skill: &Skill, left: Option<&Left>, trusted: bool) -> String {
    let mut text = introduction(facts, skill);
    let Some(left) = left else {
        return text;
    };
    text.push_str("\nYou go on with work that an earlier context window began. ");
    match &left.dehydrated {
        Some(dehydrated) => {
            text.push_str("It left you this:\n");
            for (title, part) in [
                ("Summary", &dehydrated.summary),
                ("Last action", &dehydrated.last_action),
                ("Next steps", &dehydrated.next_steps),
                ("Handover instructions", &dehydrated.handover_instructions),
            ] {
                if !part.is_empty() {
                    text.push_str(&format!("\n## {title}\n{part}\n"));
                }
            }
            if !dehydrated.required_files.is_empty() {
                let files = dehydrated.required_files.join("\n- ");
                text.push_str(&format!("\n## Required files\n- {files}\n"));
            }
        }
        None => {
            text.push_str("It left no summary; this is what is known of it:\n");
            without_summary(facts, left, trusted, &mut text);
        }
    }
    text
}

fn without_summary(facts: &EffortFacts, left: &Left, trusted: bool, text: &mut String) {
    let open = |kind: Artifact| {
        let path = facts.artifact(kind);
        let given = trusted || facts.created.contains(&path);
        let file = given.then(|| artifact::open(&facts.project, &path))?.ok()?;
        Some((file.metadata().ok()?.modified().ok()?, path, file))
    };
    if let Some((_, path, file)) = open(Artifact::Log)
        && let Some(tail) = end_of(file, LOG_TAIL)
    {
        let path = path.display();
        text.push_str(&format!("\n## End of the log ({path})\n{tail}\n"));
    }
    let written = [Artifact::Plan, Artifact::Debrief].into_iter();
    let newest = written.filter_map(open).max_by_key(|(at, ..)| *at);
    if let Some((_, path, file)) = newest {
        let mut head = Vec::new();
        let read = file.take(PLAN_HEAD as u64 + 1).read_to_end(&mut head);
        let cut = match read {
            Ok(bytes) if bytes > PLAN_HEAD => "\n(cut)",
            _ => "",
        };
        let head = String::from_utf8_lossy(&head);
        let head = head[..head.floor_char_boundary(PLAN_HEAD)].trim_end();
        text.push_str(&format!("\n## {}\n{head}{cut}\n", path.display()));
    }
    if !left.loaded.is_empty() {
        let last = left.loaded.iter().rev().take(TOUCHED);
        let files: Vec<String> = last.map(|file| format!("- {file}")).collect();
        text.push_str(&format!("\n## Files touched last\n{}\n", files.join("\n")));
    }
}

/// What a subagent is given.
pub fn for_subagent(facts: &EffortFacts, skill: &Skill) -> String {
    let mut text = format!("[becket] You work in {}.", facts.label());
    if let Some(title) = &facts.title {
        text.push_str(&format!(" Its task: {title}."));
    }
    text.push_str(&log_line(skill));
    text
}

fn introduction(facts: &EffortFacts, skill: &Skill) -> String {
    let mut text = format!("[becket] This session works on {}.", facts.label());
    if let Some(title) = &facts.title {
        text.push_str(&format!(" Its task: {title}."));
    }
    text.push_str(&format!(" Its files lie in {}.", facts.folder.display()));
    if !skill.phases.is_empty() {
        let phases = skill.phases.join(", ");
        text.push_str(&format!(
            "\nPhases: {phases}. Go on with `becket effort phase NAME`."
        ));
    }
    text.push_str(&log_line(skill));
    if !skill.instructions.is_empty() {
        text.push_str(&format!("\n{}\n", skill.instructions.trim()));
    }
    text
}

fn log_line(skill: &Skill) -> String {
    let what = match skill.log.is_empty() {
        true => "what you did and what comes next",
        false => skill.log.as_str(),
    };
    format!("\nAfter every few calls run `becket effort log \"…\"`: {what}\n")
}

/// An entry of a log, with the title of a new one. `at` is milliseconds since 1970.
pub fn log_entry(facts: &EffortFacts, text: &str, at: i64, is_new: bool) -> String {
    let at = jiff::Timestamp::from_second(at.div_euclid(1000)).unwrap_or_default();
    let entry = format!("- {at} {}\n", text.replace('\n', "\n  "));
    if !is_new {
        return entry;
    }
    let (ordinal, skill) = (facts.ordinal, &facts.skill);
    let title = facts.title.as_deref().map(|title| format!(": {title}"));
    let title = title.unwrap_or_default();
    format!("# Log of effort {ordinal}, {skill}{title}\n\n{entry}")
}

/// The last bytes of a file, from the beginning of a line.
fn end_of(mut file: File, bytes: usize) -> Option<String> {
    let len = file.metadata().ok()?.len();
    let from = len.saturating_sub(bytes as u64);
    file.seek(SeekFrom::Start(from)).ok()?;
    let mut tail = Vec::new();
    file.take(bytes as u64).read_to_end(&mut tail).ok()?;
    let tail = String::from_utf8_lossy(&tail);
    let line = if from == 0 {
        0
    } else {
        tail.find('\n').map_or(0, |at| at + 1)
    };
    Some(tail[line..].trim_end().to_owned()).filter(|tail| !tail.is_empty())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn json_and_markdown_say_the_same() {
        let json = r#"{"summary": "s", "lastAction": "l", "nextSteps": ["a", "b"],
            "handoverInstructions": "h", "requiredFiles": ["src/x.rs"]}"#;
        let markdown = "# Handover\n## Summary\ns\n\n## Last action\nl\n## Next steps\n- a\n- b\n\
            ## Handover instructions\nh\n## Required files\n- `src/x.rs`\n";
        let read = parse(json).unwrap();
        assert_eq!(read.next_steps, "- a\n- b");
        assert_eq!(parse(markdown).unwrap(), read);
        assert_eq!(parse(&format!("```json\n{json}\n```")).unwrap(), read);
    }

    #[test]
    fn what_is_wrong_with_a_dehydrated_context_is_said() {
        let nine = vec!["x"; 9];
        let many = serde_json::json!({"summary": "s", "nextSteps": "n", "requiredFiles": nine});
        for (text, why) in [
            ("{\"summary\": ", "not JSON"),
            ("just words", "neither JSON nor Markdown"),
            ("{\"summary\": \"s\"}", "no nextSteps"),
            ("{\"summary\": 7}", "summary is neither"),
            (&many.to_string(), "9 required files"),
            (&"x".repeat(7000), "7000 bytes"),
        ] {
            let said = parse(text).unwrap_err();
            assert!(said.contains(why), "{said}");
        }
        let folder = tempfile::tempdir().unwrap();
        let project = folder.path().join("p");
        fs::create_dir(&project).unwrap();
        fs::write(folder.path().join("out"), "").unwrap();
        for (file, why) in [("gone", "no file gone"), ("../out", "outside the project")] {
            let dehydrated = Dehydrated {
                required_files: vec![file.to_owned()],
                ..Dehydrated::default()
            };
            let said = check_files(&dehydrated, &project).unwrap_err();
            assert!(said.contains(why), "{said}");
        }
    }

    #[test]
    fn without_a_summary_log_plan_and_files_stand_for_it() {
        let folder = tempfile::tempdir().unwrap();
        let mut facts = EffortFacts {
            ordinal: 2,
            skill: "fix".to_owned(),
            phase: Some("mend".to_owned()),
            project: folder.path().to_owned(),
            folder: folder.path().to_owned(),
            ..EffortFacts::default()
        };
        let lines: String = (0..500).map(|n| format!("- entry {n}\n")).collect();
        fs::write(folder.path().join("2_FIX_LOG.md"), lines).unwrap();
        fs::write(folder.path().join("2_FIX_PLAN.md"), "the plan").unwrap();
        let left = Left {
            dehydrated: None,
            loaded: vec!["/p/a".to_owned(), "/p/b".to_owned()],
        };
        let text = block(&facts, &Skill::default(), Some(&left), true);
        for part in [
            "effort 2 fix, phase mend",
            "- entry 499",
            "the plan",
            "- /p/b\n- /p/a",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
        assert!(!text.contains("- entry 1\n") && text.len() < 9000);
        // Without trust, what becket has made is given.
        facts.created = vec![facts.artifact(Artifact::Plan)];
        let text = block(&facts, &Skill::default(), Some(&left), false);
        assert!(
            text.contains("the plan") && !text.contains("- entry"),
            "{text}"
        );
        // A file that is far too long is not read whole.
        let plan = File::options()
            .write(true)
            .open(folder.path().join("2_FIX_PLAN.md"));
        plan.unwrap().set_len(2 << 30).unwrap();
        let text = block(&facts, &Skill::default(), Some(&left), true);
        assert!(text.contains("the plan") && text.contains("(cut)") && text.len() < 9000);
        let status = fs::read_to_string("/proc/self/status").unwrap();
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let peak = peak.unwrap().split_whitespace().next().unwrap();
        assert!(peak.parse::<u64>().unwrap() < 1 << 20, "{peak} KiB");
    }
}
