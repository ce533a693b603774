//! What somebody's program may say to the terminal through us: text, lines, colours and links.

const RESET: &str = "\u{1b}[0m";
const NO_LINK: &str = "\u{1b}]8;;\u{1b}\\";

/// The text with every control sequence taken out but colours (SGR) and links (OSC 8). What they
/// left open is closed, so that nothing leaks into the next line.
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

/// How long the sequence is that begins a text, and what it is.
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
            let (len, said) = string(&text[2..]);
            let is_link = said.is_some_and(|said| said.starts_with("8;"));
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
        // The same sequences, begun with one character. Nobody who means well writes them in UTF-8.
        (Some('\u{9b}'), _) => (2 + control(&text[2..]).0, SequenceKind::Other),
        (Some('\u{90}' | '\u{98}' | '\u{9d}'..='\u{9f}'), _) => {
            (2 + string(&text[2..]).0, SequenceKind::Other)
        }
        (first, _) => (first.map_or(0, char::len_utf8), SequenceKind::Other),
    }
}

/// The rest of a control sequence (CSI): its length, and whether it only sets colours.
fn control(text: &str) -> (usize, bool) {
    let inside = |byte: &u8| (0x20..=0x3f).contains(byte);
    let len = text.bytes().take_while(|byte| inside(byte)).count();
    let parameters = &text[..len];
    let plain = |byte: u8| byte.is_ascii_digit() || matches!(byte, b';' | b':');
    match text.as_bytes().get(len) {
        Some(b'm') => (len + 1, parameters.bytes().all(plain)),
        Some(0x40..=0x7e) => (len + 1, false),
        _ => (len, false),
    }
}

/// The rest of a sequence that holds a text (OSC and its kin): its length, and the text if it is
/// whole and plain. One that never ends takes its line with it.
fn string(text: &str) -> (usize, Option<&str>) {
    let end = text.find(char::is_control).unwrap_or(text.len());
    let (said, after) = text.split_at(end);
    if after.starts_with('\u{7}') {
        (end + 1, Some(said))
    } else if after.starts_with("\u{1b}\\") {
        (end + 2, Some(said))
    } else {
        (end, None)
    }
}
