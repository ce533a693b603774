//! Reduces the output of a foreign program to what may reach the terminal: text, lines, colours and links.

const RESET: &str = "\u{1b}[0m";
const NO_LINK: &str = "\u{1b}]8;;\u{1b}\\";

/// Removes every control sequence but colours (SGR) and links (OSC 8), and closes those that are left open, so that
/// none leaks into the next line.
pub fn clean(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let (mut coloured, mut linked) = (false, false);
    let mut rest = text;
    while let Some(at) = rest.find(char::is_control) {
        kept.push_str(&rest[..at]);
        rest = &rest[at..];
        let (len, kind) = sequence(rest);
        let (sequence, after) = rest.split_at(len);
        match kind {
            SequenceKind::Line => kept.push('\n'),
            SequenceKind::Blank => kept.push(' '),
            SequenceKind::Colour | SequenceKind::Link => kept.push_str(sequence),
            SequenceKind::Other => {}
        }
        coloured |= kind == SequenceKind::Colour;
        linked |= kind == SequenceKind::Link;
        rest = after;
    }
    kept.push_str(rest);
    kept.truncate(kept.trim_end().len());
    let reset = if coloured { RESET } else { "" };
    let no_link = if linked { NO_LINK } else { "" };
    let closed = format!("{reset}{no_link}");
    if !kept.ends_with(&closed) {
        kept.push_str(&closed);
    }
    kept
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SequenceKind {
    Line,
    Blank,
    Colour,
    Link,
    Other,
}

/// Returns the length and the kind of the sequence that a text begins with.
fn sequence(text: &str) -> (usize, SequenceKind) {
    let mut characters = text.chars();
    let first = characters.next();
    match (first, characters.next()) {
        (Some('\n'), _) => (1, SequenceKind::Line),
        (Some('\t'), _) => (1, SequenceKind::Blank),
        (Some('\u{1b}'), Some('[')) => {
            let (len, is_colour) = control(&text[2..]);
            (
                2 + len,
                if is_colour {
                    SequenceKind::Colour
                } else {
                    SequenceKind::Other
                },
            )
        }
        (Some('\u{1b}'), Some(']')) => {
            let (len, content) = string(&text[2..]);
            let is_link = content.is_some_and(|content| content.starts_with("8;"));
            (
                2 + len,
                if is_link {
                    SequenceKind::Link
                } else {
                    SequenceKind::Other
                },
            )
        }
        (Some('\u{1b}'), Some('P' | 'X' | '^' | '_')) => {
            (2 + string(&text[2..]).0, SequenceKind::Other)
        }
        (Some('\u{1b}'), Some(second)) if second.is_ascii_graphic() => (2, SequenceKind::Other),
        // The same sequences, begun with one character. Well-meant programs do not write them in UTF-8.
        (Some('\u{9b}'), _) => (2 + control(&text[2..]).0, SequenceKind::Other),
        (Some('\u{90}' | '\u{98}' | '\u{9d}'..='\u{9f}'), _) => {
            (2 + string(&text[2..]).0, SequenceKind::Other)
        }
        (first, _) => (first.map_or(0, char::len_utf8), SequenceKind::Other),
    }
}

/// Returns the length of the rest of a control sequence (CSI), and true if it only sets colours.
fn control(text: &str) -> (usize, bool) {
    let len = text
        .bytes()
        .take_while(|byte| matches!(byte, 0x20..=0x3f))
        .count();
    let mut parameters = text[..len].bytes();
    match text.as_bytes().get(len) {
        Some(b'm') => (
            len + 1,
            parameters.all(|byte| matches!(byte, b'0'..=b'9' | b';' | b':')),
        ),
        Some(0x40..=0x7e) => (len + 1, false),
        _ => (len, false),
    }
}

/// Returns the length of the rest of a sequence that holds a text (OSC and similar ones), and the text if it is
/// complete. A sequence without an end takes its line with it.
fn string(text: &str) -> (usize, Option<&str>) {
    let end = text.find(char::is_control).unwrap_or(text.len());
    let (content, after) = text.split_at(end);
    if after.starts_with('\u{7}') {
        (end + 1, Some(content))
    } else if after.starts_with("\u{1b}\\") {
        (end + 2, Some(content))
    } else {
        (end, None)
    }
}
