//! Merges the answers of several hooks into one decision. The result does not depend on the order of the answers.

use std::path::{Path, PathBuf};

use becket_wire::answer::{Answer, Change, Opinion};
use becket_wire::event::EventName;

/// The answer of one hook.
#[derive(Debug, Clone, PartialEq)]
pub struct HookAnswer {
    pub hook: String,
    pub answer: Answer,
}

/// The merged answer.
#[derive(Debug, Clone, PartialEq)]
pub struct MergedAnswer {
    pub answer: Answer,
    /// The hooks that made the decision. None if becket itself made it, or there is no decision.
    pub by: Option<String>,
}

/// One answer, with the name of its hook; becket's own answer has none.
type Voice<'a> = (Option<&'a str>, &'a Answer);

/// Merges becket's own answer (`own`: guards and the like) with the answers of the hooks, in the order in which
/// the hooks are declared.
///
/// deny > defer > ask > allow > nothing. A block wins, and so does the end of the turn. The reasons of all that
/// agree are quoted. Of several changes the one that is declared last is used, and becket's own after all
/// others; but paths to watch are added up, and a flag that one hook sets stays set. Where an agent may not stop,
/// only the answers that stop it reach the terminal. Changes that the event does not take are dropped.
pub fn merge(event: &EventName, own: &Answer, answers: &[HookAnswer]) -> MergedAnswer {
    let hooks = answers.iter().map(|one| (Some(&*one.hook), &one.answer));
    let voices: Vec<Voice<'_>> = std::iter::once((None, own))
        .chain(hooks)
        .filter(|(_, answer)| answer.event() == event)
        .collect();
    let mut merged = Answer::silent(event.clone());
    if let Some(opinion) = opinion(&voices) {
        drop(merged.give(opinion));
    }
    change(&mut merged, &voices);
    let ends: Vec<_> = (voices.iter())
        .filter_map(|(hook, answer)| Some((*hook, Some(answer.stopped()?))))
        .collect();
    if !ends.is_empty() {
        merged.stop(joined(&ends));
    }
    let goes_on = merged.blocks_stop();
    for (hook, answer) in &voices {
        for context in answer.contexts() {
            drop(merged.add_context(named(*hook, context)));
        }
        for message in answer.messages() {
            merged.add_message(named(*hook, message));
        }
        // A hook that would let it stop signals an end that does not come.
        if !goes_on || answer.blocks_stop() {
            merged.add_terminal(answer.terminal());
        }
    }
    let by = by(&merged, &voices);
    MergedAnswer { answer: merged, by }
}

/// Turns an ask into a denial for a session without a user.
pub fn unattended(answer: &mut Answer) {
    if let Some(Opinion::Ask { reason }) = answer.opinion() {
        let reason = if reason.is_empty() {
            "no user attends this session, so none can be asked".to_owned()
        } else {
            format!("{reason} (no user attends this session, so none can be asked)")
        };
        drop(answer.give(Opinion::Deny { reason }));
    }
}

/// Returns the rank of an opinion: the higher one wins.
pub(crate) fn weight(opinion: &Opinion) -> u8 {
    match opinion {
        Opinion::Deny { .. } | Opinion::Block { .. } | Opinion::Decline { .. } => 3,
        Opinion::Defer { .. } | Opinion::Cancel => 2,
        Opinion::Ask { .. } => 1,
        Opinion::Allow { .. } | Opinion::Accept => 0,
    }
}

fn opinion(voices: &[Voice<'_>]) -> Option<Opinion> {
    let opinions = voices.iter().filter_map(|(_, answer)| answer.opinion());
    let strongest = opinions.max_by_key(|opinion| weight(opinion))?;
    let reasons: Vec<_> = (voices.iter())
        .filter(|(_, answer)| opinion_name(answer) == Some(strongest.name()))
        .map(|(hook, answer)| (*hook, answer.opinion().and_then(Opinion::reason)))
        .collect();
    Some(strongest.clone().with_reason(joined(&reasons)))
}

fn opinion_name(answer: &Answer) -> Option<&'static str> {
    answer.opinion().map(Opinion::name)
}

fn change(merged: &mut Answer, voices: &[Voice<'_>]) {
    // A change that comes with a permission, or with an answer to a server, is used only with that opinion.
    let bound = matches!(
        merged.event(),
        EventName::PermissionRequest | EventName::Elicitation | EventName::ElicitationResult
    );
    let (own, hooks): (Vec<_>, Vec<_>) = voices.iter().partition(|(hook, _)| hook.is_none());
    for (_, answer) in hooks.into_iter().chain(own) {
        if bound && opinion_name(answer) != opinion_name(merged) {
            continue;
        }
        for change in answer.changes() {
            let mut before = merged.changes().iter();
            let before = before.find(|before| before.key() == change.key());
            let change = both(before, change);
            drop(merged.change(change));
        }
    }
}

/// Combines two changes of one kind.
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

/// Returns the hooks whose answers make the decision.
fn by(merged: &Answer, voices: &[Voice<'_>]) -> Option<String> {
    let (decision, _) = merged.decision()?;
    let is_part = |(_, answer): &&Voice<'_>| match decision {
        "stop" => answer.stopped().is_some(),
        "change" => !answer.changes().is_empty(),
        "context" => !answer.contexts().is_empty(),
        "message" => !answer.messages().is_empty(),
        "terminal" => !answer.terminal().is_empty(),
        _ => opinion_name(answer) == Some(decision),
    };
    let hooks: Option<Vec<&str>> = voices
        .iter()
        .filter(is_part)
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

/// Shortens texts of more than `limit` characters: contexts together, the reason, the messages, the reason of an
/// end. If anything was cut, returns the whole texts and the file to write them to; only then `name` is called.
/// Short contexts stay whole; the long ones share the rest.
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
    let mut short = Answer::silent(answer.event().clone());
    if let Some(opinion) = answer.opinion() {
        let text = cut_all(groups[2].0, limit, &file).concat();
        drop(short.give(opinion.clone().with_reason(text)));
    }
    for context in cut_all(groups[0].0, limit, &file) {
        drop(short.add_context(context));
    }
    for change in answer.changes() {
        drop(short.change(change.clone()));
    }
    for message in cut_all(groups[1].0, limit, &file) {
        short.add_message(message);
    }
    if answer.stopped().is_some() {
        short.stop(cut_all(groups[3].0, limit, &file).concat());
    }
    short.add_terminal(answer.terminal());
    (short, Some((file, whole(&long))))
}

fn texts(text: Option<&str>) -> Vec<String> {
    text.map(str::to_owned).into_iter().collect()
}

/// Returns the number of characters of texts that are joined by line ends.
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

/// Shortens the longest texts so that all together fit.
fn cut_all(texts: &[String], limit: usize, file: &Path) -> Vec<String> {
    if length(texts) <= limit {
        return texts.to_vec();
    }
    let lengths: Vec<usize> = texts.iter().map(|text| text.chars().count()).collect();
    let share = share(&lengths, limit.saturating_sub(texts.len() - 1));
    texts.iter().map(|text| cut(text, share, file)).collect()
}

/// Returns the length that each text may have, so that together they fit into `room`: a shorter text leaves its
/// rest to the others.
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
    // A line that would be cut in two is left out, unless it is all there is.
    let at_line = text[..end].rfind('\n').filter(|at| *at > 0);
    let kept = if text[end..].starts_with('\n') {
        &text[..end]
    } else {
        &text[..at_line.unwrap_or(end)]
    };
    if kept.is_empty() {
        return last;
    }
    format!("{kept}\n{last}")
}
