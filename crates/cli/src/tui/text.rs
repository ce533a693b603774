//! Other people's text made fit for a cell grid.

use ratatui::text::Span;

/// More of one text than any line shows is not looked at.
const MOST: usize = 2_000;

/// One line of somebody else's text: no escape sequences, no control characters, nothing that turns
/// the direction of writing. Without Unicode, what is not ASCII becomes a question mark.
pub fn visible(text: &str, unicode: bool) -> String {
    let text = beginning(text);
    let stripped = anstream::adapter::strip_str(text).to_string();
    let mut out = String::with_capacity(stripped.len());
    let mut gap = false;
    for c in stripped.chars() {
        if c.is_whitespace() {
            gap = !out.is_empty();
        } else if !c.is_control() && !is_hidden(c) {
            if gap {
                out.push(' ');
                gap = false;
            }
            out.push(if unicode || c.is_ascii() { c } else { '?' });
        }
    }
    out
}

fn beginning(text: &str) -> &str {
    let end = text
        .char_indices()
        .nth(MOST)
        .map_or(text.len(), |(at, _)| at);
    &text[..end]
}

/// Marks that change how their neighbours are shown, and have no width of their own.
fn is_hidden(c: char) -> bool {
    matches!(c, '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

pub fn width(text: &str) -> usize {
    // An ASCII byte is a cell; asking for the width of each would be most of a frame's time.
    if text.is_ascii() {
        text.len()
    } else {
        Span::raw(text).width()
    }
}

/// As much of a text as fits, with a mark where it was cut.
pub fn fit(text: &str, room: usize, unicode: bool) -> String {
    if width(text) <= room {
        return text.to_owned();
    }
    let mark = if unicode { "…" } else { "~" };
    if room == 0 {
        return String::new();
    }
    let mut out = take(text, room - 1);
    out.truncate(out.trim_end().len());
    out + mark
}

/// The beginning of a text that is at most so wide.
fn take(text: &str, room: usize) -> String {
    let span = Span::raw(text);
    let mut out = String::new();
    let mut used = 0;
    for grapheme in span.styled_graphemes(ratatui::style::Style::new()) {
        used += width(grapheme.symbol);
        if used > room {
            break;
        }
        out.push_str(grapheme.symbol);
    }
    out
}

/// A text broken at spaces into lines that fit, at most so many; the last one is cut.
pub fn wrap(text: &str, room: usize, most: usize, unicode: bool) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut rest = text.trim();
    while !rest.is_empty() && lines.len() < most && room > 0 {
        if lines.len() + 1 == most || width(rest) <= room {
            lines.push(fit(rest, room, unicode));
            break;
        }
        let head = take(rest, room);
        let at = match head.rfind(' ') {
            Some(at) if rest.as_bytes().get(head.len()) != Some(&b' ') => at,
            _ => head.len(),
        };
        // A single character that is wider than the room.
        if at == 0 {
            lines.push(fit(rest, room, unicode));
            break;
        }
        lines.push(rest[..at].trim_end().to_owned());
        rest = rest[at..].trim_start();
    }
    lines
}

/// A sum of money that stays narrow.
pub fn dollars(sum: f64) -> String {
    match sum {
        sum if !sum.is_finite() || sum < 0.0 => "?".to_owned(),
        sum if sum < 1_000.0 => format!("${sum:.2}"),
        sum if sum < 1_000_000.0 => format!("${sum:.0}"),
        _ => "$1M+".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_and_controls_go() {
        assert_eq!(visible("\u{1b}[31mred\u{1b}[0m\r\n\tx\u{7}", true), "red x");
        assert_eq!(visible("a\u{202e}b\u{200b}c\u{9b}2J", true), "abc2J");
        assert_eq!(visible("\u{1b}]0;title\u{7}ok", true), "ok");
        assert_eq!(visible("  für 日本  ", false), "f?r ??");
        assert_eq!(visible("  ", true), "");
    }

    #[test]
    fn what_is_cut_fits_and_says_so() {
        assert_eq!(fit("short", 5, true), "short");
        assert_eq!(fit("longer", 5, true), "long…");
        assert_eq!(fit("longer", 5, false), "long~");
        // A wide character that half fits does not count.
        assert_eq!(fit("日本語", 4, true), "日…");
        assert_eq!(width(&fit("日本語", 5, true)), 5);
        assert_eq!(fit("x", 0, true), "");
    }

    #[test]
    fn lines_break_at_spaces() {
        assert_eq!(wrap("one two three", 7, 5, true), ["one two", "three"]);
        assert_eq!(wrap("one two three", 7, 1, true), ["one tw…"]);
        assert_eq!(wrap("abcdefghij", 4, 5, true), ["abcd", "efgh", "ij"]);
        assert_eq!(wrap("日本", 1, 5, true), ["…"]);
        assert!(wrap("", 7, 5, true).is_empty());
    }

    #[test]
    fn sums_are_narrow() {
        assert_eq!(
            [0.354, 1_234.5, 5e9, f64::NAN].map(dollars),
            ["$0.35", "$1234", "$1M+", "?"]
        );
    }
}
