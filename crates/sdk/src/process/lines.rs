//! Lines of a stream, each within a bound.

use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};

use super::outline::Outline;

/// How much is read at once.
const BUFFER: usize = 64 << 10;

/// One line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Line<'a> {
    /// A whole line, without its end.
    Whole(&'a [u8]),
    /// Longer than the bound: only its outline is kept.
    TooLong(Outline),
    /// The stream ended in the middle of it.
    Cut { bytes: usize },
}

/// Reads lines. Memory stays within the bound, however long a line is.
pub(crate) struct Lines<R> {
    reader: BufReader<R>,
    line: Vec<u8>,
    length: usize,
    over: Option<Outline>,
    /// The line was given out.
    given: bool,
    bound: usize,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    pub(crate) fn new(stream: R, bound: usize) -> Self {
        Self {
            reader: BufReader::with_capacity(BUFFER, stream),
            line: Vec::new(),
            length: 0,
            over: None,
            given: false,
            bound,
        }
    }

    /// The next line that is not empty; `None` at the end of the stream. Nothing is lost if the
    /// returned future is dropped.
    pub(crate) async fn next(&mut self) -> Option<Line<'_>> {
        if std::mem::take(&mut self.given) {
            self.line.clear();
            self.length = 0;
        }
        loop {
            // A stream that fails has ended.
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
                self.given = true;
                return Some(match self.over.take() {
                    Some(outline) => Line::TooLong(outline),
                    None => Line::Whole(&self.line),
                });
            }
        }
    }

    fn add(&mut self, part: &[u8]) {
        self.length += part.len();
        if self.length <= self.bound {
            return self.line.extend_from_slice(part);
        }
        let outline = self.over.get_or_insert_default();
        // What was kept before the bound was reached.
        outline.feed(&std::mem::take(&mut self.line));
        outline.feed(part);
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
}
