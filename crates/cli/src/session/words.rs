//! What is said of a session in words: what it does, what it is about, how long, how much.

use becket_wire::session::{AgentRow, Display, MAIN, SessionRow, Status};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use crate::glyph::Glyphs;
use crate::tell::is_inert;

/// More of somebody else's text is never looked at for one line.
const MOST: usize = 500;

/// Somebody else's text on one line: no control character of it reaches the terminal, and nothing
/// that turns the direction of what follows.
pub fn one_line(text: &str) -> String {
    let bounded: String = text.chars().take(4 * MOST).collect();
    let words: Vec<String> = inert(&bounded).collect();
    words.join(" ").chars().take(MOST).collect()
}

/// The words of a text, without what a terminal would obey.
fn inert(text: &str) -> impl Iterator<Item = String> {
    let words = text.split_whitespace();
    words
        .map(|word| word.chars().filter(|c| is_inert(*c)).collect::<String>())
        .filter(|word| !word.is_empty())
}

/// The text in lines of so many columns, broken between words where there are any.
pub fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    for line in text.lines() {
        let mut current = String::new();
        for word in inert(line) {
            let is_first = current.is_empty();
            if !is_first && current.width() + 1 + word.width() > width {
                lines.push(std::mem::take(&mut current));
            } else if !is_first {
                current.push(' ');
            }
            for c in word.chars() {
                if current.width() + c.width().unwrap_or(0) > width && !current.is_empty() {
                    lines.push(std::mem::take(&mut current));
                }
                current.push(c);
            }
        }
        lines.push(current);
    }
    lines
}

/// One line in lines of so many columns, broken after a blank where one is near, and every blank of
/// it kept. It has no control characters.
pub fn fold(line: &str, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut current = String::new();
    let mut used = 0;
    for c in line.chars() {
        let wide = c.width().unwrap_or(0);
        if used > 0 && used + wide > width {
            let blank = current.rfind(' ').map_or(0, |at| at + 1);
            let is_near = blank * 2 > current.len();
            let rest = current.split_off(if is_near { blank } else { current.len() });
            used = rest.width();
            lines.push(std::mem::replace(&mut current, rest));
        }
        used += wide;
        current.push(c);
    }
    lines.push(current);
    lines
}

/// The text in so many columns, with a mark where it was cut off.
pub fn fit(text: &str, width: usize, glyphs: Glyphs) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let room = width.saturating_sub(glyphs.cut().width());
    let mut used = 0;
    let kept = text.chars().take_while(|c| {
        used += c.width().unwrap_or(0);
        used <= room
    });
    let kept: String = kept.collect();
    let cut = if width == 0 { "" } else { glyphs.cut() };
    format!("{}{cut}", kept.trim_end())
}

/// How long, in a few characters: `12s`, `4m`, `1h05m`, `13h`, `3d`.
pub fn span(ms: i64) -> String {
    let seconds = ms.max(0) / 1000;
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    match seconds {
        ..60 => format!("{seconds}s"),
        60..3600 => format!("{minutes}m"),
        3600..36_000 => format!("{hours}h{:02}m", minutes % 60),
        36_000..172_800 => format!("{hours}h"),
        _ => format!("{}d", hours / 24),
    }
}

/// Dollars, in a few characters.
pub fn dollars(cost: f64) -> String {
    if cost < 100.0 {
        format!("${cost:.2}")
    } else {
        format!("${cost:.0}")
    }
}

/// Tokens, in a few characters.
pub fn tokens(count: u64) -> String {
    match count {
        ..1000 => count.to_string(),
        1000..1_000_000 => format!("{}k", count / 1000),
        _ => format!("{:.1}M", count as f64 / 1e6),
    }
}

/// How many of something.
pub fn count(number: usize, one: &str, many: &str) -> String {
    let word = if number == 1 { one } else { many };
    format!("{number} {word}")
}

/// The state in one word: the display's, unless there is none.
pub fn state(row: &SessionRow) -> &'static str {
    match row {
        row if row.ended_at.is_some() => "ended",
        row if !row.hooked => "unhooked",
        row => row.display.word(),
    }
}

/// What it does, waits for or died of; empty if there is nothing to say beyond its state.
pub fn doing(row: &SessionRow) -> String {
    if row.ended_at.is_some() {
        return row.end_reason.as_deref().map(one_line).unwrap_or_default();
    }
    if !row.hooked {
        let launch = row.waiting_reason.as_deref();
        return one_line(launch.unwrap_or("nothing is heard of it"));
    }
    let mut said = match row.display {
        Display::Error => one_line(row.error.as_deref().unwrap_or("the turn failed")),
        Display::Attention | Display::Checked => waiting(row),
        Display::Working => working(row),
        Display::Done => done(row),
    };
    if row.stale {
        said = format!("{said} (stale)").trim_start().to_owned();
    }
    said
}

fn waiting(row: &SessionRow) -> String {
    let reason = row.waiting_reason.as_deref().or(row.status.reason());
    one_line(reason.unwrap_or("needs you"))
}

/// The state and what it does; also whose permission it is, where no line of that agent's follows.
pub fn sentence(row: &SessionRow) -> String {
    let doing = doing(row);
    let mut said = state(row).to_owned();
    if !doing.is_empty() {
        said = format!("{said}: {doing}");
    }
    match waiting_agent(row) {
        Some(agent) => format!("{said} ({})", agent_name(agent)),
        None => said,
    }
}

/// The subagent that needs the person, if it is not the main agent.
fn waiting_agent(row: &SessionRow) -> Option<&AgentRow> {
    let waits = row.waiting_for.as_deref().filter(|id| *id != MAIN)?;
    row.agents.iter().find(|agent| agent.agent_id == waits)
}

fn working(row: &SessionRow) -> String {
    match &row.status {
        Status::Working { detail } => one_line(detail.as_deref().unwrap_or_default()),
        // It is not the main agent that works.
        _ => count(live_agents(row).count(), "agent", "agents"),
    }
}

fn done(row: &SessionRow) -> String {
    match row.background_tasks as usize {
        0 if row.interrupted => "interrupted".to_owned(),
        0 => String::new(),
        tasks => count(tasks, "background task", "background tasks"),
    }
}

/// Those that have not ended.
pub fn live_agents(row: &SessionRow) -> impl Iterator<Item = &AgentRow> {
    row.agents.iter().filter(|agent| agent.ended_at.is_none())
}

pub fn agent_name(agent: &AgentRow) -> String {
    let name = one_line(agent.agent_type.as_deref().unwrap_or_default());
    if name.is_empty() {
        "agent".to_owned()
    } else {
        name
    }
}

/// How an agent's own status is displayed.
pub fn agent_display(agent: &AgentRow) -> Display {
    match agent.status {
        Status::Idle => Display::Done,
        Status::Working { .. } => Display::Working,
        Status::Attention { .. } => Display::Attention,
    }
}

/// What an agent does, in words.
pub fn agent_doing(agent: &AgentRow) -> String {
    let said = agent.status.detail().or(agent.status.reason());
    said.map_or_else(|| agent.status.word().to_owned(), one_line)
}

/// What it is about: its title, else the last prompt.
pub fn about(row: &SessionRow) -> String {
    let said = row.title.as_deref().or(row.last_prompt.as_deref());
    said.map(one_line).unwrap_or_default()
}

/// The model by a short name: `Opus 4.5`, or `opus-4-5` of `claude-opus-4-5-20251101`.
pub fn model(row: &SessionRow) -> String {
    if let Some(name) = &row.figures.model_name {
        return one_line(name);
    }
    let id = row.model.as_deref().or(row.figures.model_id.as_deref());
    let id = one_line(id.unwrap_or_default());
    let id = id.strip_prefix("claude-").unwrap_or(&id);
    let is_date = |end: &str| end.len() == 8 && end.bytes().all(|c| c.is_ascii_digit());
    match id.rsplit_once('-') {
        Some((short, end)) if is_date(end) => short.to_owned(),
        _ => id.to_owned(),
    }
}

/// Since when it is what it is.
pub fn since(row: &SessionRow) -> i64 {
    match row.ended_at {
        Some(ended) => ended,
        None if !row.hooked => row.started_at,
        None => row.display_since,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_stay_short() {
        let said = |seconds: i64| span(seconds * 1000);
        assert_eq!(said(-5), "0s");
        assert_eq!(said(59), "59s");
        assert_eq!(said(60), "1m");
        assert_eq!(said(3599), "59m");
        assert_eq!(said(3900), "1h05m");
        assert_eq!(said(36_000), "10h");
        assert_eq!(said(172_799), "47h");
        assert_eq!(said(172_800), "2d");
        assert_eq!(span(i64::MIN), "0s");
    }

    #[test]
    fn text_is_cut_by_columns_not_by_characters() {
        let unicode = Glyphs::Unicode;
        assert_eq!(fit("abc", 3, unicode), "abc");
        assert_eq!(fit("abcd", 3, unicode), "ab…");
        assert_eq!(fit("ab cd", 4, unicode), "ab…");
        assert_eq!(fit("日本語", 5, unicode), "日本…");
        assert_eq!(fit("日本語", 4, unicode), "日…");
        assert_eq!(fit("abcd", 3, Glyphs::Ascii), "ab~");
        assert_eq!(fit("abcd", 0, unicode), "");
    }

    #[test]
    fn text_is_broken_between_words() {
        assert_eq!(wrap("aa bb cc\n\ndd", 5), ["aa bb", "cc", "", "dd"]);
        assert_eq!(wrap("aa bbbbbbb", 5), ["aa", "bbbbb", "bb"]);
        assert_eq!(wrap("日本語日本語", 5), ["日本", "語日", "本語"]);
        assert_eq!(wrap("a\u{1b}[2J", 9), ["a[2J"]);
    }

    #[test]
    fn what_others_wrote_stays_on_its_line() {
        let odd = "a\u{1b}[31m\n\n b\u{202e}\tc\u{9b}\u{7}";
        assert_eq!(one_line(odd), "a[31m b c");
        assert_eq!(one_line(&"x".repeat(10_000)).len(), MOST);
    }

    #[test]
    fn a_line_is_folded_with_all_its_blanks() {
        assert_eq!(fold("  a  bc", 3), ["  ", "a  ", "bc"]);
        assert_eq!(fold("one two  three", 10), ["one two  ", "three"]);
        assert_eq!(fold("a/long/path", 4), ["a/lo", "ng/p", "ath"]);
        assert_eq!(fold("日本", 3), ["日", "本"]);
        assert_eq!(fold("日本", 1), ["日", "本"]);
        assert_eq!(fold("abc", usize::MAX), ["abc"]);
        assert_eq!(fold("", 3), [""]);
    }

    #[test]
    fn models_are_known_by_short_names() {
        let of = |id: &str| {
            model(&SessionRow {
                model: Some(id.into()),
                ..SessionRow::default()
            })
        };
        assert_eq!(of("claude-opus-4-5-20251101"), "opus-4-5");
        assert_eq!(of("claude-sonnet-5"), "sonnet-5");
        assert_eq!(of("local-7b"), "local-7b");
    }

    #[test]
    fn money_and_tokens_stay_short() {
        assert_eq!(dollars(0.351), "$0.35");
        assert_eq!(dollars(99.5), "$99.50");
        assert_eq!(dollars(1234.5), "$1234");
        assert_eq!(tokens(999), "999");
        assert_eq!(tokens(45_900), "45k");
        assert_eq!(tokens(1_200_000), "1.2M");
    }
}
