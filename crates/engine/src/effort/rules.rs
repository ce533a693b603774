//! What an effort says to an event: reminder and denial by heartbeat, the overflow of the context, the
//! rules of its skill, the context line, and the files that were read for it. Pure.

use becket_wire::Head;
use becket_wire::answer::Opinion;
use becket_wire::event::EventName;

use super::skill::{EffortLimits, RuleAnswer, Skill, SkillRule};
use super::{EffortContext, EffortSaid, MAIN, is_auto, is_exempt, runs_only_becket};
use crate::matcher::Matcher;
use crate::merge::weight;

/// The names of becket's own rules, in decisions after `effort:`.
pub const HEARTBEAT: &str = "heartbeat";
pub const OVERFLOW: &str = "overflow";
const OVERFLOW_WARNING: &str = "overflow-warning";
const CONTEXT: &str = "context";

/// What the effort says, and by which rule.
#[derive(Debug, Clone, Default)]
pub struct Says {
    pub opinion: Option<Opinion>,
    pub contexts: Vec<String>,
    pub rule: Option<String>,
    pub said: EffortSaid,
}

impl Says {
    /// Of two opinions the stricter one holds.
    fn give(&mut self, rule: &str, opinion: Opinion) {
        let strength = |opinion: Option<&Opinion>| opinion.map(weight);
        if strength(Some(&opinion)) > strength(self.opinion.as_ref()) {
            self.opinion = Some(opinion);
            self.rule = Some(rule.to_owned());
        }
        self.fired(rule);
    }

    fn tell(&mut self, rule: &str, text: String) {
        self.contexts.push(text);
        self.rule.get_or_insert_with(|| rule.to_owned());
    }

    fn fired(&mut self, rule: &str) {
        self.said.fired_rules.push(rule.to_owned());
    }
}

/// What an effort says to one event. `at` is its time, as a person reads it.
pub fn say(
    context: &EffortContext,
    skill: &Skill,
    limits: &EffortLimits,
    event: &EventName,
    head: &Head<'_>,
    at: &str,
) -> Option<Says> {
    let mut says = Says::default();
    match event {
        EventName::SessionStart | EventName::SubagentStart => {
            started(context, skill, event, &mut says);
        }
        EventName::UserPromptSubmit => prompted(context, skill, limits, head, at, &mut says),
        EventName::PreToolUse => {
            rules(context, skill, head, &mut says);
            overflow(context, limits, head, &mut says);
            heartbeat(context, skill, limits, head, &mut says);
            says.said.heartbeat_count = Some(context.heartbeat);
            says.said.context_usage = context.context_pct;
            let allow = !matches!(says.opinion, Some(Opinion::Deny { .. }));
            says.said.allow = Some(allow);
            let reason = says.opinion.as_ref().and_then(Opinion::reason);
            says.said.reason = reason.map(str::to_owned);
        }
        EventName::PostToolUse => called(context, &mut says),
        EventName::PreCompact if context.agent == MAIN && context.restarts && is_auto(head) => {
            let reason =
                "becket starts a fresh Claude Code for this effort instead of a compaction";
            let opinion = Opinion::Block {
                reason: reason.to_owned(),
            };
            says.give(OVERFLOW, opinion);
        }
        _ => return None,
    }
    for note in &context.notes {
        let taken = matches!(event, EventName::UserPromptSubmit | EventName::PostToolUse);
        if taken {
            says.tell(CONTEXT, format!("[becket] {note}"));
            says.said.told.push(note.clone());
        }
    }
    let silent = says.opinion.is_none() && says.contexts.is_empty();
    says.said.effort_id = context.facts.id;
    says.said.session_id = context.window;
    (!silent).then_some(says)
}

fn started(context: &EffortContext, skill: &Skill, event: &EventName, says: &mut Says) {
    let Some(read) = &context.read else {
        return;
    };
    says.tell(CONTEXT, read.text.clone());
    let said = &mut says.said;
    said.found = Some(true);
    said.skill = Some(context.facts.skill.clone());
    said.phase.clone_from(&context.facts.phase);
    said.files_to_preload.clone_from(&read.files);
    if *event == EventName::SessionStart {
        let left = context.left.as_ref();
        said.dehydrated_context = left.and_then(|left| left.dehydrated.clone());
        said.skill_config = serde_json::to_value(skill).ok();
    }
}

/// The context line: time, session, skill, phase, heartbeat.
fn prompted(
    context: &EffortContext,
    skill: &Skill,
    limits: &EffortLimits,
    head: &Head<'_>,
    at: &str,
    says: &mut Says,
) {
    let session = head.session_id.as_deref().unwrap_or_default();
    let session = &session[..session.floor_char_boundary(8)];
    let mut line = format!(
        "[becket] {at}, session {session}, {}",
        context.facts.label()
    );
    line.push_str(&format!(", heartbeat {}", context.heartbeat));
    if let deny @ 1.. = skill.deny(limits) {
        line.push_str(&format!("/{deny}"));
    }
    if let Some(used) = context.context_pct {
        line.push_str(&format!(", context {used:.0} %"));
    }
    let said = &mut says.said;
    said.session_context = Some(line.clone());
    said.skill = Some(context.facts.skill.clone());
    said.phase.clone_from(&context.facts.phase);
    said.task_dir = Some(context.facts.folder.clone());
    said.heartbeat_count = Some(context.heartbeat);
    says.tell(CONTEXT, line);
}

fn called(context: &EffortContext, says: &mut Says) {
    if let Some(read) = &context.read
        && !read.text.is_empty()
    {
        says.tell("directives", read.text.clone());
        says.said.pending_injections.clone_from(&read.files);
    }
    says.said.heartbeat_count = Some(context.heartbeat);
    says.said.dialogue_entry.clone_from(&context.dialogue);
}

fn heartbeat(
    context: &EffortContext,
    skill: &Skill,
    limits: &EffortLimits,
    head: &Head<'_>,
    says: &mut Says,
) {
    let count = context.heartbeat;
    let (remind, deny) = (skill.remind(limits), skill.deny(limits));
    let paused = context.loading || context.dehydrating || context.handed_over;
    let denies = deny > 0 && count >= deny;
    let reminds = remind > 0 && count == remind;
    if paused || !(denies || reminds) || is_exempt(head) {
        return;
    }
    let label = context.facts.label();
    let should = match skill.log.is_empty() {
        true => String::new(),
        false => format!(" An entry says: {}", skill.log),
    };
    let how = format!("Run `becket effort log \"…\"`.{should}");
    if denies {
        let reason = format!(
            "becket: {count} calls without a log entry ({label}). {how} Then call this again. Read, Grep, Glob and becket's own commands are not counted."
        );
        says.give(HEARTBEAT, Opinion::Deny { reason });
    } else {
        let next = match deny {
            0 => String::new(),
            deny => format!(" The {deny}th call without one is denied."),
        };
        let text = format!("[becket] {count} calls without a log entry ({label}). {how}{next}");
        says.tell(HEARTBEAT, text);
        says.fired(HEARTBEAT);
    }
}

fn overflow(context: &EffortContext, limits: &EffortLimits, head: &Head<'_>, says: &mut Says) {
    let (Some(used), true) = (context.context_pct, context.agent == MAIN) else {
        return;
    };
    if limits.overflow == 0 {
        return;
    }
    let limit = f64::from(limits.overflow);
    let has_fired = |rule: &str| context.fired.iter().any(|fired| fired == rule);
    let warns = used >= limit - f64::from(limits.warn_before);
    says.said.overflow_warning = Some(warns);
    if used >= limit && context.restarts {
        if !runs_only_becket(head) {
            let reason = match context.handed_over {
                true => "becket: the context is handed over. End your turn: a fresh window goes on with it.".to_owned(),
                false => format!("becket: {used:.0} % of the context is used. {WAY_OUT} Nothing else runs until then."),
            };
            says.give(OVERFLOW, Opinion::Deny { reason });
        }
    } else if used >= limit && !has_fired(OVERFLOW) {
        says.tell(
            OVERFLOW,
            format!("[becket] {used:.0} % of the context is used: Claude Code will compact it soon. Hand your work over now, before you go on. {WAY_OUT} It is given back to you after the compaction."),
        );
        says.fired(OVERFLOW);
    } else if warns && used < limit && !has_fired(OVERFLOW_WARNING) {
        says.tell(
            OVERFLOW_WARNING,
            format!("[becket] {used:.0} % of the context is used. Bring what you do to a point from which a fresh window can go on, and log it. At {limit:.0} % you are asked to hand over."),
        );
        says.fired(OVERFLOW_WARNING);
    }
}

/// How an agent hands over.
pub const WAY_OUT: &str = "Run, as one Bash call: becket effort dehydrate <<'EOF', then JSON {\"summary\", \"lastAction\", \"nextSteps\", \"handoverInstructions\", \"requiredFiles\": [at most 8 paths]}, then EOF.";

fn rules(context: &EffortContext, skill: &Skill, head: &Head<'_>, says: &mut Says) {
    if skill.rules.is_empty() || context.loading || runs_only_becket(head) {
        return;
    }
    for (name, rule) in &skill.rules {
        let has_fired = context.fired.iter().any(|fired| fired == name);
        if !holds(rule, context, head) {
            continue;
        }
        let reason = format!("becket: {}", rule.say);
        match rule.answer {
            RuleAnswer::Deny => says.give(name, Opinion::Deny { reason }),
            RuleAnswer::Ask => says.give(name, Opinion::Ask { reason }),
            RuleAnswer::Once if !has_fired => says.give(name, Opinion::Deny { reason }),
            RuleAnswer::Once => {}
            RuleAnswer::Warn if has_fired => {}
            RuleAnswer::Warn => {
                says.tell(name, format!("[becket] {}", rule.say));
                says.fired(name);
            }
        }
    }
}

/// Whether all conditions of a rule hold. A matcher that does not parse matches nothing: reading the
/// configuration reports it.
fn holds(rule: &SkillRule, context: &EffortContext, head: &Head<'_>) -> bool {
    let tool = head.tool.as_deref().unwrap_or_default();
    let by_tool = Matcher::parse(&rule.tool).is_ok_and(|matcher| matcher.matches(tool));
    let phase = context.facts.phase.as_ref();
    let by_phase = rule.phase.is_empty() || phase.is_some_and(|phase| rule.phase.contains(phase));
    let at_least = |wanted: Option<u32>, is: u32| wanted.is_none_or(|wanted| is >= wanted);
    let by_context = rule.context.is_none_or(|wanted| {
        let used = context.context_pct;
        used.is_some_and(|used| used >= wanted)
    });
    by_tool
        && by_phase
        && by_context
        && at_least(rule.heartbeat, context.heartbeat)
        && at_least(rule.calls, context.calls)
}
