//! Makes an answer fit what Claude Code takes: long text is cut at a line, and says where all of it
//! is. Pure; whoever calls writes the file.

use std::path::{Path, PathBuf};

use becket_wire::answer::{Answer, Opinion};

/// Cuts what is longer than `limit` characters: contexts together, the reason, the messages, the
/// reason of an end. Gives back what to write where, if anything was cut; `name` is asked for the
/// file only then. Contexts that are short stay whole; the long ones share what is left.
pub fn fit(
    answer: Answer,
    limit: usize,
    name: impl FnOnce() -> PathBuf,
) -> (Answer, Option<(PathBuf, String)>) {
    let reason = answer.opinion().and_then(Opinion::reason);
    let groups = [
        (answer.contexts(), "context"),
        (answer.messages(), "message"),
        (&texts(reason), "reason"),
        (&texts(answer.stopped()), "stop"),
    ];
    let long: Vec<(String, &str)> = (groups.iter())
        .filter(|(texts, _)| length(texts) > limit)
        .map(|(texts, title)| (texts.join("\n"), *title))
        .collect();
    if long.is_empty() {
        return (answer, None);
    }
    let file = name();
    let cut = |texts: &[String]| cut_all(texts, limit, &file);
    let mut short = Answer::silent(answer.event().clone());
    if let Some(opinion) = answer.opinion() {
        let text = cut(groups[2].0).concat();
        drop(short.give(opinion.clone().with_reason(text)));
    }
    for context in cut(groups[0].0) {
        drop(short.add_context(context));
    }
    for change in answer.changes() {
        drop(short.change(change.clone()));
    }
    for message in cut(groups[1].0) {
        short.tell(message);
    }
    if answer.stopped().is_some() {
        short.stop(cut(groups[3].0).concat());
    }
    short.ring(answer.terminal());
    (short, Some((file, whole(&long))))
}

fn texts(text: Option<&str>) -> Vec<String> {
    text.map(str::to_owned).into_iter().collect()
}

/// As it is written: joined by line ends.
fn length(texts: &[String]) -> usize {
    let between = texts.len().saturating_sub(1);
    texts.iter().map(|text| text.chars().count()).sum::<usize>() + between
}

fn whole(long: &[(String, &str)]) -> String {
    let mut whole = match long {
        [(text, _)] => text.clone(),
        _ => {
            let parts = long
                .iter()
                .map(|(text, title)| format!("== {title} ==\n{text}"));
            parts.collect::<Vec<_>>().join("\n\n")
        }
    };
    if !whole.ends_with('\n') {
        whole.push('\n');
    }
    whole
}

/// Cuts the longest so that all together have room.
fn cut_all(texts: &[String], limit: usize, file: &Path) -> Vec<String> {
    if length(texts) <= limit {
        return texts.to_vec();
    }
    let lengths: Vec<usize> = texts.iter().map(|text| text.chars().count()).collect();
    let share = share(&lengths, limit.saturating_sub(texts.len() - 1));
    let cut = |text: &String| cut(text, share, file);
    texts.iter().map(cut).collect()
}

/// The most that each may have, so that together they have `room`: who needs less leaves the rest to
/// the others.
fn share(lengths: &[usize], room: usize) -> usize {
    let mut lengths = lengths.to_vec();
    lengths.sort_unstable();
    let (mut room, mut others) = (room, lengths.len());
    for length in lengths {
        if length * others > room {
            return room / others;
        }
        room -= length;
        others -= 1;
    }
    usize::MAX
}

fn cut(text: &str, limit: usize, file: &Path) -> String {
    if text.chars().count() <= limit {
        return text.to_owned();
    }
    let last = format!("[cut here; all of it is in {}]", file.display());
    let room = limit.saturating_sub(last.chars().count() + 1);
    let end = text
        .char_indices()
        .nth(room)
        .map_or(text.len(), |(at, _)| at);
    // The line that would be cut in two goes to the file whole, unless it is all there is.
    let at_line = text[..end].rfind('\n').filter(|at| *at > 0);
    let kept = match text[end..].starts_with('\n') {
        true => &text[..end],
        false => &text[..at_line.unwrap_or(end)],
    };
    match kept.is_empty() {
        true => last,
        false => format!("{kept}\n{last}"),
    }
}
