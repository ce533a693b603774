//! Many answers, one decision: pure, total, and the same in whatever order the answers came.

mod fit;

use becket_wire::answer::{Answer, Change, Opinion};
use becket_wire::event::EventName;

pub use fit::fit;

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
            answer.tell(named(*hook, message));
        }
        // Who would let it stop rings for an end that does not come.
        if !goes_on || said.blocks_stop() {
            answer.ring(said.terminal());
        }
    }
    let by = by(&answer, &voices);
    Merged { answer, by }
}

/// Where nobody attends, nobody can be asked: it is denied.
pub fn unattended(answer: &mut Answer) {
    if let Some(Opinion::Ask { reason }) = answer.opinion() {
        let reason = match reason.is_empty() {
            true => "nobody attends this session, so nobody can be asked".to_owned(),
            false => format!("{reason} (nobody attends this session, so nobody can be asked)"),
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
mod properties;
#[cfg(test)]
mod tests;
