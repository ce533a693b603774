//! Text for a terminal: cleaned, on one line, wrapped, cut; numbers in a few characters.

use becket_wire::text::is_hidden;
use serde::Serialize;
use unicode_segmentation::UnicodeSegmentation;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use super::style::Glyphs;

/// Returns true if a terminal shows `c` and does not obey it.
pub fn is_inert(c: char) -> bool {
    !is_hidden(c)
}

/// The number of characters that [`one_line`] keeps of a text.
const MAX_LINE_CHARS: usize = 500;
/// The number of characters that [`screen_line`] reads of a text: more than any line shows.
const MAX_SCREEN_CHARS: usize = 2_000;
/// The number of characters of an id that people read.
pub const SHORT_ID_CHARS: usize = 8;

/// Puts a foreign text on one line, without hidden characters.
pub fn one_line(text: &str) -> String {
    let bounded = beginning(text, 4 * MAX_LINE_CHARS);
    let mut line = words(bounded).collect::<Vec<_>>().join(" ");
    line.truncate(beginning(&line, MAX_LINE_CHARS).len());
    line
}

/// Puts a foreign text on one line of the live view, without escape sequences, hidden characters and
/// characters that the terminal cannot show.
pub fn screen_line(text: &str, glyphs: Glyphs) -> String {
    let stripped = anstream::adapter::strip_str(beginning(text, MAX_SCREEN_CHARS)).to_string();
    glyphs.encode(&words(&stripped).collect::<Vec<_>>().join(" "))
}

/// Returns the beginning of an id, long enough for people to recognize it.
pub fn short_id(id: &str) -> &str {
    beginning(id, SHORT_ID_CHARS)
}

fn beginning(text: &str, chars: usize) -> &str {
    let end = text.char_indices().nth(chars);
    end.map_or(text, |(at, _)| &text[..at])
}

/// The number of blanks in a row from which [`visible`] shows their count.
const MANY_BLANKS: usize = 8;

/// Puts a foreign text on one line and makes every character visible: a newline is `⏎`, a hidden
/// character is its code, and a long run of blanks is its length.
pub fn visible(text: &str) -> String {
    let mut out = String::new();
    let mut blanks = 0;
    for c in text.chars().chain([char::MAX]) {
        if c == ' ' {
            blanks += 1;
            continue;
        }
        match std::mem::take(&mut blanks) {
            few @ 0..MANY_BLANKS => out.extend(std::iter::repeat_n(' ', few)),
            many => out += &format!(" ␠×{many} "),
        }
        match c {
            char::MAX => {}
            '\n' => out.push('⏎'),
            c if is_plain(c) => out.push(c),
            c => out.extend(c.escape_default()),
        }
    }
    out
}

/// Returns true if [`visible`] leaves `c` as it is.
pub fn is_plain(c: char) -> bool {
    is_inert(c) && (c == ' ' || !c.is_whitespace())
}

/// Formats a value as JSON on one line. Hidden characters, which JSON allows, become escapes.
pub fn json(value: &impl Serialize) -> serde_json::Result<String> {
    let mut out = String::new();
    for c in serde_json::to_string(value)?.chars() {
        match c {
            // Blanks between the tokens of a raw payload. A JSON string has none of these.
            '\t' | '\n' | '\r' => out.push(' '),
            c if is_inert(c) => out.push(c),
            c => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    out += &format!("\\u{unit:04x}");
                }
            }
        }
    }
    Ok(out)
}

/// Splits a text into words without hidden characters.
fn words(text: &str) -> impl Iterator<Item = String> {
    text.split_whitespace()
        .map(|word| word.chars().filter(|c| is_inert(*c)).collect::<String>())
        .filter(|word| !word.is_empty())
}

/// Returns the number of cells that a text takes.
pub fn width(text: &str) -> usize {
    // Most texts are ASCII. Asking for the width of each character would be most of a frame's time.
    if text.is_ascii() {
        text.len()
    } else {
        text.width()
    }
}

/// Wraps a text into at most `most` lines. The last one is cut if there is more text.
pub fn wrap_to(text: &str, room: usize, most: usize, glyphs: Glyphs) -> Vec<String> {
    let mut lines = wrap(text, room);
    if lines.len() > most {
        let rest = lines.split_off(most.saturating_sub(1)).join(" ");
        lines.push(rest);
        lines.truncate(most);
    }
    lines
        .iter()
        .map(|line| fit(line, room, glyphs))
        .filter(|line| !line.is_empty())
        .collect()
}

/// Wraps a text into lines of at most `room` cells, between words where possible.
pub fn wrap(text: &str, room: usize) -> Vec<String> {
    let mut lines = Vec::new();
    for line in text.lines() {
        let (mut current, mut used) = (String::new(), 0);
        for word in words(line) {
            if used > 0 && used + 1 + width(&word) > room {
                lines.push(std::mem::take(&mut current));
                used = 0;
            } else if used > 0 {
                current.push(' ');
                used += 1;
            }
            if used + width(&word) <= room {
                current.push_str(&word);
                used += width(&word);
                continue;
            }
            for grapheme in word.graphemes(true) {
                if used > 0 && used + width(grapheme) > room {
                    lines.push(std::mem::take(&mut current));
                    used = 0;
                }
                current.push_str(grapheme);
                used += width(grapheme);
            }
        }
        lines.push(current);
    }
    lines
}

/// Splits one line into lines of at most `width` cells, after a blank where one is near. Keeps every
/// blank. The line must have no control characters.
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

/// Cuts a text to at most `room` cells, with a mark at the cut.
pub fn fit(text: &str, room: usize, glyphs: Glyphs) -> String {
    if width(text) <= room {
        return text.to_owned();
    }
    if room == 0 {
        return String::new();
    }
    let mut used = 0;
    let kept = text.graphemes(true).take_while(|grapheme| {
        used += width(grapheme);
        used < room
    });
    let kept: String = kept.collect();
    format!("{}{}", kept.trim_end(), glyphs.cut())
}

/// Indents each line by two cells.
pub fn indent(lines: &str) -> String {
    let lines = lines.lines().map(|line| format!("  {line}"));
    lines.map(|line| format!("{}\n", line.trim_end())).collect()
}

/// Formats dollars in a few characters.
pub fn dollars(cost: f64) -> String {
    match cost {
        cost if !cost.is_finite() || cost < 0.0 => "?".to_owned(),
        cost if cost < 1e3 => format!("${cost:.2}"),
        cost if cost < 1e6 => format!("${cost:.0}"),
        _ => "$1M+".to_owned(),
    }
}

/// Formats a number of tokens in a few characters.
pub fn tokens(count: u64) -> String {
    match count {
        ..1000 => count.to_string(),
        1000..1_000_000 => format!("{}k", count / 1000),
        _ => format!("{:.1}M", count as f64 / 1e6),
    }
}

/// Formats a number with the singular or plural of a noun.
pub fn count(number: usize, one: &str, many: &str) -> String {
    let word = if number == 1 { one } else { many };
    format!("{number} {word}")
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn foreign_text_stays_on_one_line() {
        let odd = "a\u{1b}[31m\n\n b\u{202e}\u{200b}\tc\u{9b}\u{7}\u{2060}\u{e0041}";
        assert_eq!(one_line(odd), "a[31m b c");
        assert_eq!(one_line(&"x".repeat(10_000)).len(), MAX_LINE_CHARS);
    }

    #[test]
    fn nothing_of_a_foreign_text_is_hidden() {
        for (text, shown) in [
            ("# ok\nrm -rf ~\r", "# ok⏎rm -rf ~\\r"),
            ("\u{1b}]52;c;AA\u{7}", "\\u{1b}]52;c;AA\\u{7}"),
            (
                "a\u{202e}b\u{200b}\u{a0}\u{2028}",
                "a\\u{202e}b\\u{200b}\\u{a0}\\u{2028}",
            ),
            ("a   b", "a   b"),
        ] {
            assert_eq!(visible(text), shown);
        }
        let blanks = format!("true{}evil", " ".repeat(300));
        assert_eq!(visible(&blanks), "true ␠×300 evil");
    }

    #[test]
    fn json_for_a_terminal_means_the_same() {
        let odd = ["é\u{9b}31m", "\u{1b}\u{7f}\u{202e}\n\u{e0041}"];
        let shown = json(&odd).unwrap();
        assert_eq!(
            shown,
            r#"["é\u009b31m","\u001b\u007f\u202e\n\udb40\udc41"]"#
        );
        assert_eq!(serde_json::from_str::<Vec<String>>(&shown).unwrap(), odd);
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
    fn money_and_tokens_stay_short() {
        assert_eq!(dollars(0.351), "$0.35");
        assert_eq!(dollars(99.5), "$99.50");
        assert_eq!(dollars(1234.5), "$1234");
        assert_eq!(tokens(999), "999");
        assert_eq!(tokens(45_900), "45k");
        assert_eq!(tokens(1_200_000), "1.2M");
    }

    #[test]
    fn a_screen_line_has_no_escapes_and_controls() {
        assert_eq!(
            screen_line("\u{1b}[31mred\u{1b}[0m\r\n\tx\u{7}", Glyphs::Unicode),
            "red x"
        );
        assert_eq!(
            screen_line("a\u{202e}b\u{200b}c\u{9b}2J", Glyphs::Unicode),
            "abc2J"
        );
        let hidden = "a\u{200c}b\u{200d}c\u{34f}d\u{e0041}e";
        assert_eq!(screen_line(hidden, Glyphs::Unicode), "abcde");
        assert_eq!(screen_line("\u{1b}]0;title\u{7}ok", Glyphs::Unicode), "ok");
        assert_eq!(screen_line("  für 日本  ", Glyphs::Ascii), "f?r ??");
        assert_eq!(screen_line("  ", Glyphs::Unicode), "");
    }

    #[test]
    fn a_cut_text_fits_and_has_a_mark() {
        assert_eq!(fit("short", 5, Glyphs::Unicode), "short");
        assert_eq!(fit("longer", 5, Glyphs::Unicode), "long…");
        assert_eq!(fit("longer", 5, Glyphs::Ascii), "long~");
        // A wide character that half fits does not count.
        assert_eq!(fit("日本語", 4, Glyphs::Unicode), "日…");
        assert_eq!(width(&fit("日本語", 5, Glyphs::Unicode)), 5);
        assert_eq!(fit("x", 0, Glyphs::Unicode), "");
    }

    #[test]
    fn lines_break_at_spaces() {
        assert_eq!(
            wrap_to("one two three", 7, 5, Glyphs::Unicode),
            ["one two", "three"]
        );
        assert_eq!(wrap_to("one two three", 7, 1, Glyphs::Unicode), ["one tw…"]);
        assert_eq!(
            wrap_to("abcdefghij", 4, 5, Glyphs::Unicode),
            ["abcd", "efgh", "ij"]
        );
        assert_eq!(wrap_to("日本", 1, 5, Glyphs::Unicode), ["…", "…"]);
        assert!(wrap_to("", 7, 5, Glyphs::Unicode).is_empty());
    }
}
