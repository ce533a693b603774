//! Text for a terminal: made inert, on one line, wrapped, cut; numbers in a few characters.

use becket_wire::text::is_hidden;
use serde::Serialize;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use super::style::Glyphs;

/// Returns true for a character that a terminal shows and does not obey.
pub fn is_inert(c: char) -> bool {
    !is_hidden(c)
}

/// One line shows at most this much of a foreign text.
const MOST: usize = 500;

/// A foreign text on one line, without characters that a terminal would obey or not show.
pub fn one_line(text: &str) -> String {
    let bounded: String = text.chars().take(4 * MOST).collect();
    let words: Vec<String> = inert(&bounded).collect();
    words.join(" ").chars().take(MOST).collect()
}

/// So many blanks in a row are counted instead of shown.
const BLANKS: usize = 8;

/// A foreign text on one line with nothing hidden: a newline is `⏎`, every other character that a
/// terminal would obey or not show is its code, and a long run of blanks is its length.
pub fn visible(text: &str) -> String {
    let mut out = String::new();
    let mut blanks = 0;
    for c in text.chars().chain([char::MAX]) {
        if c == ' ' {
            blanks += 1;
            continue;
        }
        match std::mem::take(&mut blanks) {
            few @ 0..BLANKS => out.extend(std::iter::repeat_n(' ', few)),
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

/// Whether a character is shown, and as what it is.
pub fn is_plain(c: char) -> bool {
    is_inert(c) && (c == ' ' || !c.is_whitespace())
}

/// JSON on one line. A terminal would obey characters that JSON lets pass, so they are written as escapes,
/// which mean the same.
pub fn json(value: &impl Serialize) -> serde_json::Result<String> {
    let mut out = String::new();
    for c in serde_json::to_string(value)?.chars() {
        match c {
            // Between the tokens of a payload that is shown as it came: none stands within a text.
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

/// Dollars, in a few characters.
pub fn dollars(cost: f64) -> String {
    match cost {
        cost if !cost.is_finite() || cost < 0.0 => "?".to_owned(),
        cost if cost < 1e3 => format!("${cost:.2}"),
        cost if cost < 1e6 => format!("${cost:.0}"),
        _ => "$1M+".to_owned(),
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
    fn what_others_wrote_stays_on_its_line() {
        let odd = "a\u{1b}[31m\n\n b\u{202e}\u{200b}\tc\u{9b}\u{7}\u{2060}\u{e0041}";
        assert_eq!(one_line(odd), "a[31m b c");
        assert_eq!(one_line(&"x".repeat(10_000)).len(), MOST);
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
}
