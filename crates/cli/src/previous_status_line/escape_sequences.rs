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
        (Some('\u{1b}'), Some('[')) => control(text),
        (Some('\u{1b}'), Some(']')) => string(text),
        (Some('\u{1b}'), Some('P' | 'X' | '^' | '_')) => (string(text).0, SequenceKind::Other),
        (Some('\u{1b}'), Some(second)) if second.is_ascii_graphic() => (2, SequenceKind::Other),
        // The same sequences, begun with one character. Well-meant programs do not write them in UTF-8.
        (Some('\u{9b}'), _) => (control(text).0, SequenceKind::Other),
        (Some('\u{90}' | '\u{98}' | '\u{9d}'..='\u{9f}'), _) => {
            (string(text).0, SequenceKind::Other)
        }
        (first, _) => (first.map_or(0, char::len_utf8), SequenceKind::Other),
    }
}

/// Returns the length and the kind of a control sequence (CSI), whose beginning has two bytes.
fn control(text: &str) -> (usize, SequenceKind) {
    let end = text[2..]
        .find(|c| !matches!(c, ' '..='?'))
        .map_or(text.len(), |at| 2 + at);
    let mut parameters = text[2..end].bytes();
    match text.as_bytes().get(end) {
        Some(b'm') if parameters.all(|byte| matches!(byte, b'0'..=b'9' | b';' | b':')) => {
            (end + 1, SequenceKind::Colour)
        }
        Some(0x40..=0x7e) => (end + 1, SequenceKind::Other),
        _ => (end, SequenceKind::Other),
    }
}

/// Returns the length and the kind of a sequence that holds a text (OSC and similar ones), whose beginning has two
/// bytes. A sequence without an end takes its line with it.
fn string(text: &str) -> (usize, SequenceKind) {
    let len = text[2..]
        .find(char::is_control)
        .map_or(text.len(), |at| 2 + at);
    let (sequence, after) = text.split_at(len);
    let end = match after.chars().next() {
        Some('\u{7}') => 1,
        Some('\u{1b}') if after[1..].starts_with('\\') => 2,
        _ => return (len, SequenceKind::Other),
    };
    if sequence[2..].starts_with("8;") {
        (len + end, SequenceKind::Link)
    } else {
        (len + end, SequenceKind::Other)
    }
}
