//! Splits a stream into lines of limited length. Of a longer line only an outline is kept.

use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};

/// The number of bytes that are read at once.
const BUFFER: usize = 64 << 10;

/// The number of bytes of a key or a value that an outline keeps: types and ids are short.
const MAX_FIELD: usize = 128;

/// One line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Line<'a> {
    /// A whole line, without its end.
    Whole(&'a [u8]),
    /// The outline of a line that is longer than the limit.
    TooLong(MessageOutline),
    /// The start of a line, in which the stream ended.
    Cut { bytes: usize },
}

/// A reader of lines. Its memory stays within the limit, however long a line is.
pub(crate) struct Lines<R> {
    reader: BufReader<R>,
    line: Vec<u8>,
    length: usize,
    /// The outline of the current line, if the line is longer than the limit.
    outline: Option<MessageOutline>,
    /// True if `line` was returned, so that the next call clears it.
    returned: bool,
    max_length: usize,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    pub(crate) fn new(stream: R, max_length: usize) -> Self {
        Self {
            reader: BufReader::with_capacity(BUFFER, stream),
            line: Vec::new(),
            length: 0,
            outline: None,
            returned: false,
            max_length,
        }
    }

    /// Reads the next line that is not empty; `None` at the end of the stream. Nothing is lost if the
    /// returned future is dropped.
    pub(crate) async fn next(&mut self) -> Option<Line<'_>> {
        if std::mem::take(&mut self.returned) {
            self.line.clear();
            self.length = 0;
        }
        loop {
            // A stream that fails counts as ended.
            let buffer = self.reader.fill_buf().await.unwrap_or_default();
            if buffer.is_empty() {
                let bytes = std::mem::take(&mut self.length);
                return (bytes > 0).then_some(Line::Cut { bytes });
            }
            let end = buffer.iter().position(|byte| *byte == b'\n');
            let part = buffer[..end.unwrap_or(buffer.len())].to_vec();
            self.reader.consume(part.len() + usize::from(end.is_some()));
            self.add(&part);
            if end.is_some() && self.length > 0 {
                self.returned = true;
                return Some(match self.outline.take() {
                    Some(outline) => Line::TooLong(outline),
                    None => Line::Whole(&self.line),
                });
            }
        }
    }

    fn add(&mut self, part: &[u8]) {
        self.length += part.len();
        if self.length <= self.max_length {
            return self.line.extend_from_slice(part);
        }
        let outline = self.outline.get_or_insert_default();
        // The part that was kept before the limit was reached.
        outline.feed(&std::mem::take(&mut self.line));
        outline.feed(part);
    }
}

/// The `type` and the `request_id` of a JSON object, read piece by piece, at any position. Nothing else
/// is kept, and the JSON need not be valid.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct MessageOutline {
    /// The message's type.
    pub(crate) kind: String,
    /// The id of a control request.
    pub(crate) request_id: String,
    depth: usize,
    in_string: bool,
    escaped: bool,
    /// The current string, if it belongs to the outermost object.
    text: Vec<u8>,
    /// The key whose value comes next.
    key: Option<Vec<u8>>,
}

impl MessageOutline {
    pub(crate) fn feed(&mut self, bytes: &[u8]) {
        for byte in bytes {
            if self.in_string {
                self.in_string(*byte);
            } else {
                self.between_strings(*byte);
            }
        }
    }

    fn in_string(&mut self, byte: u8) {
        match byte {
            _ if self.escaped => self.escaped = false,
            b'\\' => self.escaped = true,
            b'"' => {
                self.in_string = false;
                self.end_string();
            }
            _ if self.depth == 1 && self.text.len() < MAX_FIELD => self.text.push(byte),
            _ => {}
        }
    }

    fn between_strings(&mut self, byte: u8) {
        match byte {
            b'"' => {
                self.in_string = true;
                self.text.clear();
            }
            b'{' | b'[' => self.depth += 1,
            b'}' | b']' => self.depth = self.depth.saturating_sub(1),
            b':' if self.depth == 1 => self.key = Some(std::mem::take(&mut self.text)),
            b',' if self.depth == 1 => self.key = None,
            _ => {}
        }
    }

    /// Ends a string. If a key precedes it, it is that key's value.
    fn end_string(&mut self) {
        if self.depth != 1 {
            return;
        }
        let field = match self.key.as_deref() {
            Some(b"type") => &mut self.kind,
            Some(b"request_id") => &mut self.request_id,
            _ => return,
        };
        *field = String::from_utf8_lossy(&self.text).into_owned();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn lines_are_whole_too_long_or_cut() {
        let long = format!(r#"{{"x":"{}","type":"result"}}"#, "x".repeat(BUFFER * 2));
        let text = format!("one\n\n{long}\ntwo\nth");
        let mut lines = Lines::new(text.as_bytes(), BUFFER + 10);
        assert_eq!(lines.next().await, Some(Line::Whole(b"one")));
        let Some(Line::TooLong(outline)) = lines.next().await else {
            panic!("it is too long");
        };
        assert_eq!(outline.kind, "result");
        assert_eq!(
            lines.line.capacity(),
            0,
            "what is over the bound is not kept"
        );
        assert_eq!(lines.next().await, Some(Line::Whole(b"two")));
        assert_eq!(lines.next().await, Some(Line::Cut { bytes: 2 }));
        assert_eq!(lines.next().await, None);
    }

    #[test]
    fn the_outermost_fields_are_found_at_any_position() {
        let line = br#"{"a":[{"type":"inner"}],"b":"x\",\"type\":\"no\"","c":{"request_id":"no"},
            "type" : "result","d":{},"request_id":"r1"}"#;
        for size in [1, 7, line.len()] {
            let mut outline = MessageOutline::default();
            line.chunks(size).for_each(|piece| outline.feed(piece));
            assert_eq!((&*outline.kind, &*outline.request_id), ("result", "r1"));
        }
    }

    #[test]
    fn garbage_has_no_outline() {
        let mut outline = MessageOutline::default();
        outline.feed(b"]}}\"type\":\"result\"");
        assert_eq!((&*outline.kind, &*outline.request_id), ("", ""));
    }
}
