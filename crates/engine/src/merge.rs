//! Many answers, one decision: pure, total, and the same in whatever order the answers came.

use std::path::{Path, PathBuf};

use becket_wire::answer::{Answer, Change, Opinion};
use becket_wire::event::EventName;

/// What one hook said.
#[derive(Debug, Clone, PartialEq)]
pub struct Said {
    pub hook: String,
    pub answer: Answer,
}

/// The one answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Merged {
    pub answer: Answer,
    /// The hooks whose decision it is. None if becket itself says so, or nobody says anything.
    pub by: Option<String>,
}

/// One voice, and its name if it is a hook's.
type Voice<'a> = (Option<&'a str>, &'a Answer);

/// Merges what becket itself says (`own`: guards and the like) with what the hooks said, in the
/// order in which they are declared. deny > defer > ask > allow > nothing, a block wins, an end of
/// the turn wins; those who agree are all quoted. Of changes the last declared one stands, and
/// becket's own last of all; but paths to watch are put together, and a flag that one sets stays set.
/// Where an agent may not stop, the terminal hears only who says so. What the event does not take is
/// dropped.
pub fn merge(event: &EventName, own: Answer, said: &[Said]) -> Merged {
    if said.is_empty() && own.event() == event {
        return Merged {
            answer: own,
            by: None,
        };
    }
    let hooks = said
        .iter()
        .map(|said| (Some(said.hook.as_str()), &said.answer));
    let voices: Vec<Voice<'_>> = std::iter::once((None, &own))
        .chain(hooks)
        .filter(|(_, answer)| answer.event() == event)
        .collect();
    let mut answer = Answer::silent(event.clone());
    if let Some(opinion) = opinion(&voices) {
        drop(answer.give(opinion));
    }
    change(&mut answer, &voices);
    let ends: Vec<_> = (voices.iter())
        .filter_map(|(hook, said)| Some((*hook, Some(said.stopped()?))))
        .collect();
    if !ends.is_empty() {
        answer.stop(joined(&ends));
    }
    let goes_on = answer.blocks_stop();
    for (hook, said) in &voices {
        for context in said.contexts() {
            drop(answer.add_context(named(*hook, context)));
        }
        for message in said.messages() {
            answer.add_message(named(*hook, message));
        }
        // Who would let it stop rings for an end that does not come.
        if !goes_on || said.blocks_stop() {
            answer.add_terminal(said.terminal());
        }
    }
    let by = by(&answer, &voices);
    Merged { answer, by }
}

/// Where nobody attends, nobody can be asked: it is denied.
pub fn unattended(answer: &mut Answer) {
    if let Some(Opinion::Ask { reason }) = answer.opinion() {
        let reason = match reason.is_empty() {
            true => "no user attends this session, so none can be asked".to_owned(),
            false => format!("{reason} (no user attends this session, so none can be asked)"),
        };
        drop(answer.give(Opinion::Deny { reason }));
    }
}

/// How strong an opinion is.
pub(crate) fn weight(opinion: &Opinion) -> u8 {
    match opinion {
        Opinion::Deny { .. } | Opinion::Block { .. } | Opinion::Decline { .. } => 3,
        Opinion::Defer { .. } | Opinion::Cancel => 2,
        Opinion::Ask { .. } => 1,
        Opinion::Allow { .. } | Opinion::Accept => 0,
    }
}

fn opinion(voices: &[Voice<'_>]) -> Option<Opinion> {
    let opinions = voices.iter().filter_map(|(_, said)| said.opinion());
    let strongest = opinions.max_by_key(|opinion| weight(opinion))?;
    let reasons: Vec<_> = (voices.iter())
        .filter(|(_, said)| agrees(said, strongest))
        .map(|(hook, said)| (*hook, said.opinion().and_then(Opinion::reason)))
        .collect();
    Some(strongest.clone().with_reason(joined(&reasons)))
}

fn agrees(said: &Answer, opinion: &Opinion) -> bool {
    said.opinion().map(Opinion::name) == Some(opinion.name())
}

fn change(answer: &mut Answer, voices: &[Voice<'_>]) {
    // What is changed along with a permission, or answered to a server, belongs to that opinion.
    let bound = matches!(
        answer.event(),
        EventName::PermissionRequest | EventName::Elicitation | EventName::ElicitationResult
    );
    let (own, hooks): (Vec<_>, Vec<_>) = voices.iter().partition(|(hook, _)| hook.is_none());
    for (_, said) in hooks.into_iter().chain(own) {
        let lost = said.opinion().map(Opinion::name) != answer.opinion().map(Opinion::name);
        if bound && lost {
            continue;
        }
        for change in said.changes() {
            let mut before = answer.changes().iter();
            let before = before.find(|before| before.key() == change.key());
            let change = both(before, change);
            drop(answer.change(change));
        }
    }
}

/// What two changes of one kind come to.
fn both(before: Option<&Change>, change: &Change) -> Change {
    match (before, change) {
        (Some(Change::WatchPaths(before)), Change::WatchPaths(paths)) => {
            let new = paths.iter().filter(|path| !before.contains(path));
            Change::WatchPaths(before.iter().chain(new).cloned().collect())
        }
        (
            Some(
                set @ (Change::SuppressPrompt(true)
                | Change::ReloadSkills(true)
                | Change::Retry(true)
                | Change::Interrupt(true)),
            ),
            _,
        ) => set.clone(),
        _ => change.clone(),
    }
}

/// Whose words the decision is made of.
fn by(answer: &Answer, voices: &[Voice<'_>]) -> Option<String> {
    let (decision, _) = answer.decision()?;
    let made_it = |(_, said): &&Voice<'_>| match decision {
        "stop" => said.stopped().is_some(),
        "change" => !said.changes().is_empty(),
        "context" => !said.contexts().is_empty(),
        "message" => !said.messages().is_empty(),
        "terminal" => !said.terminal().is_empty(),
        _ => said.opinion().map(Opinion::name) == Some(decision),
    };
    let hooks: Option<Vec<&str>> = voices
        .iter()
        .filter(made_it)
        .map(|(hook, _)| *hook)
        .collect();
    hooks.map(|hooks| hooks.join(", "))
}

fn joined(reasons: &[(Option<&str>, Option<&str>)]) -> String {
    let lines: Vec<String> = (reasons.iter())
        .filter_map(
            |(hook, reason)| match (hook, reason.filter(|text| !text.is_empty())) {
                (_, Some(reason)) => Some(named(*hook, reason)),
                (Some(hook), None) => Some(format!("{hook} (it gave no reason)")),
                (None, None) => None,
            },
        )
        .collect();
    lines.join("\n")
}

fn named(hook: Option<&str>, text: &str) -> String {
    match hook {
        Some(hook) if !text.is_empty() => format!("{hook}: {text}"),
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests;

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
        short.add_message(message);
    }
    if answer.stopped().is_some() {
        short.stop(cut(groups[3].0).concat());
    }
    short.add_terminal(answer.terminal());
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
