//! Lines of a stream, each within a bound.

use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};

/// How much is kept of a line that is over the bound.
const START: usize = 512;
/// How much is read at once.
const BUFFER: usize = 64 << 10;

/// One line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Line<'a> {
    /// A whole line, without its end.
    Whole(&'a [u8]),
    /// Longer than the bound: only its start is kept.
    TooLong { start: &'a [u8], bound: usize },
    /// The stream ended in the middle of it.
    Cut { bytes: usize },
}

/// Reads lines. Memory stays within the bound, however long a line is.
pub(crate) struct Lines<R> {
    reader: BufReader<R>,
    line: Vec<u8>,
    bound: usize,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    pub(crate) fn new(stream: R, bound: usize) -> Self {
        Self {
            reader: BufReader::with_capacity(BUFFER, stream),
            line: Vec::new(),
            bound,
        }
    }

    /// The next line that is not empty; `None` at the end of the stream.
    pub(crate) async fn next(&mut self) -> Option<Line<'_>> {
        let mut length = 0;
        self.line.clear();
        loop {
            // A stream that fails has ended.
            let buffer = self.reader.fill_buf().await.unwrap_or_default();
            if buffer.is_empty() {
                return (length > 0).then_some(Line::Cut { bytes: length });
            }
            let end = buffer.iter().position(|byte| *byte == b'\n');
            let part = &buffer[..end.unwrap_or(buffer.len())];
            let room = self.bound.saturating_sub(self.line.len());
            self.line.extend_from_slice(&part[..part.len().min(room)]);
            length += part.len();
            let used = part.len() + usize::from(end.is_some());
            self.reader.consume(used);
            if end.is_some() && length > 0 {
                return Some(self.finished(length));
            }
        }
    }

    fn finished(&self, length: usize) -> Line<'_> {
        if length <= self.bound {
            return Line::Whole(&self.line);
        }
        Line::TooLong {
            start: &self.line[..self.line.len().min(START)],
            bound: self.bound,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn lines_are_whole_too_long_or_cut() {
        let long = "x".repeat(BUFFER * 2);
        let text = format!("one\n\n{long}\ntwo\nth");
        let mut lines = Lines::new(text.as_bytes(), 10);
        assert_eq!(lines.next().await, Some(Line::Whole(b"one")));
        let too_long = Line::TooLong {
            start: &[b'x'; 10],
            bound: 10,
        };
        assert_eq!(lines.next().await, Some(too_long));
        assert!(
            lines.line.capacity() < BUFFER,
            "what is over the bound is not kept"
        );
        assert_eq!(lines.next().await, Some(Line::Whole(b"two")));
        assert_eq!(lines.next().await, Some(Line::Cut { bytes: 2 }));
        assert_eq!(lines.next().await, None);
    }
}
