//! One session in full, as `becket show` tells it.

use becket_wire::rpc::EventRow;
use becket_wire::session::{MAIN, SessionRow};
use unicode_width::UnicodeWidthStr;

use super::table::{context_style, glyph, state_style};
use super::tree::branches;
use crate::line;
use crate::session::words;
use crate::ui::style::{BAD, BOLD, DIM, Look, WARN, style};
use crate::ui::text;
use crate::ui::time::{self, clock};

/// A prompt may be a whole document.
const PROMPT_LINES: usize = 20;
const PROMPT_CHARS: usize = 20_000;
/// Longer lines are hard to read.
const READABLE: usize = 100;

/// A part with a heading: names and values.
#[derive(Debug, Default)]
struct Section {
    fields: Vec<(&'static str, String)>,
}

impl Section {
    fn add(&mut self, name: &'static str, value: impl Into<String>) {
        self.fields.push((name, value.into()));
    }

    fn maybe(&mut self, name: &'static str, value: Option<impl Into<String>>) {
        if let Some(value) = value {
            self.add(name, value);
        }
    }
}

/// Everything that is known of it; `past` as [`super::past`] tells it, and what happened last.
pub fn full(row: &SessionRow, past: &str, events: &[EventRow], look: &Look) -> String {
    let state = state_style(row);
    let mut out = format!(
        "{state}{} {}{state:#}  {BOLD}{}{BOLD:#}\n",
        glyph(row, look.glyphs),
        words::state(row),
        headline(row),
    );
    let sections = [
        ("What it does", doing(row, look)),
        ("Where", place(row, look)),
        ("Context and cost", figures(row)),
    ];
    // One margin for all of them.
    let names = sections.iter().flat_map(|(_, section)| &section.fields);
    let width = names.map(|(name, _)| name.len()).max().unwrap_or(0);
    for (title, section) in &sections {
        if section.fields.is_empty() {
            continue;
        }
        out += &heading(title);
        for (name, value) in &section.fields {
            out += &format!("  {DIM}{name:width$}{DIM:#}  {value}\n");
        }
    }
    out += &agents(row, look);
    out += &prompt(row, look);
    out += past;
    if !events.is_empty() {
        out += &heading("Last events");
        for event in events {
            let room = look.width.saturating_sub(2);
            out += &format!("  {}\n", line::person(event, &look.now, room));
        }
    }
    out
}

pub fn heading(title: &str) -> String {
    format!("\n{BOLD}{title}{BOLD:#}\n")
}

fn headline(row: &SessionRow) -> String {
    let about = match &row.title {
        Some(title) => text::one_line(title),
        None => String::new(),
    };
    if about.is_empty() {
        text::one_line(&row.session_id)
    } else {
        about
    }
}

fn doing(row: &SessionRow, look: &Look) -> Section {
    let mut section = Section::default();
    let since = |ms: i64| when(ms, look);
    if row.ended_at.is_none() {
        section.add("state", words::sentence(row));
        section.maybe("since", since(words::since(row)));
    }
    // The main agent's own status, where a subagent's outshines it.
    if row.waiting_for.as_deref().is_some_and(|id| id != MAIN) {
        let detail = row.status.detail().or(row.status.reason());
        let detail = detail.map(|detail| format!(": {}", text::one_line(detail)));
        let status = row.status.word();
        section.add(
            "main agent",
            format!("{status}{}", detail.unwrap_or_default()),
        );
    }
    section.maybe(
        "error",
        row.error
            .as_deref()
            .map(|why| format!("{BAD}{}{BAD:#}", text::one_line(why))),
    );
    section.maybe("interrupted", row.interrupted.then_some("by its person"));
    let many = |number: u32| (number > 0).then(|| number.to_string());
    section.maybe("background", many(row.background_tasks));
    section.maybe("failed tools", many(row.failed_tools));
    if row.inferred {
        section.add("inferred", "no event said so");
    }
    if row.stale {
        section.add("stale", "nothing was heard of it for 8 hours");
    }
    section.maybe("effort", row.effort.as_deref().map(text::one_line));
    for trouble in &row.troubles {
        let trouble = text::one_line(trouble);
        section.add("trouble", format!("{WARN}{trouble}{WARN:#}"));
    }
    section
}

fn place(row: &SessionRow, look: &Look) -> Section {
    let mut section = Section::default();
    let text = |value: &Option<String>| value.as_deref().map(text::one_line);
    if !row.session_id.is_empty() {
        section.add("session", text::one_line(&row.session_id));
    }
    section.maybe("goes on from", text(&row.prev_session_id));
    section.maybe("project", text(&row.project));
    if row.cwd != row.project {
        section.maybe("folder", text(&row.cwd));
    }
    section.maybe(
        "process",
        row.pid.map(|pid| match (row.alive, row.hooked) {
            (true, true) => pid.to_string(),
            (true, false) => format!("{pid}, without becket's hooks"),
            (false, _) => format!("{pid}, gone"),
        }),
    );
    section.maybe(
        "tmux",
        row.tmux_pane.as_deref().map(|pane| {
            let socket = text(&row.tmux_socket).map(|socket| format!(" ({socket})"));
            format!("{}{}", text::one_line(pane), socket.unwrap_or_default())
        }),
    );
    section.maybe("begun", when(row.started_at, look));
    section.maybe("last heard", when(row.last_activity, look));
    section.maybe(
        "ended",
        row.ended_at.and_then(|at| when(at, look)).map(|at| {
            let why = text(&row.end_reason).map(|why| format!(": {why}"));
            format!("{at}{}", why.unwrap_or_default())
        }),
    );
    section.maybe("mode", text(&row.permission_mode));
    if row.hooked && !row.attended {
        section.add("attended", "no");
    }
    section.maybe("transcript", text(&row.transcript_path));
    section
}

/// The local time and how long ago that is; none if nobody knows.
fn when(ms: i64, look: &Look) -> Option<String> {
    let ago = time::span(look.now_ms().saturating_sub(ms));
    // Thousandths say nothing here.
    let at = clock(ms / 1000 * 1000, &look.now).replace(".000", "");
    (ms != 0).then(|| format!("{at}, {ago} ago"))
}

fn figures(row: &SessionRow) -> Section {
    let mut section = Section::default();
    let figures = &row.figures;
    let short = words::model(row);
    let id = row.model.as_deref().or(figures.model_id.as_deref());
    let id = id.map(text::one_line).filter(|id| *id != short);
    let id = id.map(|id| format!(" ({id})")).unwrap_or_default();
    if !short.is_empty() {
        section.add("model", format!("{short}{id}"));
    }
    let context = figures.context_pct.map(|percent| {
        let style = context_style(percent);
        format!("{style}{percent:.0}%{style:#}")
    });
    let size = match (figures.context_tokens, figures.context_size) {
        (Some(used), Some(size)) => {
            Some(format!("{} of {}", text::tokens(used), text::tokens(size)))
        }
        (Some(used), None) => Some(text::tokens(used)),
        _ => None,
    };
    let size = size.map(|size| format!("{size} tokens"));
    let both: Vec<String> = context.into_iter().chain(size).collect();
    if !both.is_empty() {
        section.add("context", both.join(", "));
    }
    section.maybe("cost", figures.cost_usd.map(text::dollars));
    if let (Some(added), Some(removed)) = (figures.lines_added, figures.lines_removed) {
        section.add("lines", format!("+{added} -{removed}"));
    }
    let long = |ms: u64| time::span(i64::try_from(ms).unwrap_or(i64::MAX));
    section.maybe(
        "time",
        figures.duration_ms.map(|all| {
            let model = figures.api_duration_ms.map(long);
            let model = model.map(|time| format!(", {time} of it the model's"));
            format!("{}{}", long(all), model.unwrap_or_default())
        }),
    );
    if figures.from_transcript && !section.fields.is_empty() {
        section.add("from", "the transcript; there is no status line");
    }
    section
}

/// Those that live as a tree; of the others only how many there were.
fn agents(row: &SessionRow, look: &Look) -> String {
    if row.agents.is_empty() {
        return String::new();
    }
    let mut out = heading("Agents");
    let live = branches(words::live_agents(row), look.glyphs);
    let name = |lead: &str, name: String| format!("{lead}{name}");
    let widest = live
        .iter()
        .map(|branch| name(&branch.lead, words::agent_name(branch.agent)).width());
    let widest = widest.max().unwrap_or(0);
    for branch in &live {
        let agent = branch.agent;
        let display = words::agent_display(agent);
        let mark = look.glyphs.display(display);
        let style = style(display);
        let named = name(&branch.lead, words::agent_name(agent));
        let pad = " ".repeat(widest - named.width());
        let since = match agent.status_since {
            0 => String::new(),
            at => format!(", {}", time::span(look.now_ms().saturating_sub(at))),
        };
        let doing = words::agent_doing(agent);
        let id = text::one_line(&agent.agent_id);
        out +=
            &format!("  {style}{mark}{style:#} {named}{pad}  {doing}{since}  {DIM}{id}{DIM:#}\n");
    }
    let ended = row.agents.len() - live.len();
    if ended > 0 {
        out += &format!("  {DIM}{ended} ended{DIM:#}\n");
    }
    out
}

fn prompt(row: &SessionRow, look: &Look) -> String {
    let Some(prompt) = &row.last_prompt else {
        return String::new();
    };
    let mut out = heading("Last prompt");
    let bounded: String = prompt.trim().chars().take(PROMPT_CHARS).collect();
    let lines = text::wrap(&bounded, look.width.min(READABLE) - 2);
    for line in lines.iter().take(PROMPT_LINES) {
        out += format!("  {line}").trim_end();
        out.push('\n');
    }
    if lines.len() > PROMPT_LINES {
        let more = lines.len() - PROMPT_LINES;
        let more = text::count(more, "more line", "more lines");
        out += &format!("  {DIM}{} {more}{DIM:#}\n", look.glyphs.cut());
    }
    out
}
