//! The few fields that are needed of a message too long to be kept.

/// How much of a key or a value is kept: types and ids are short.
const MAX_FIELD: usize = 128;

/// Reads `type` and `request_id` of a JSON object, piece by piece, at any position. Nothing else is
/// kept, and the JSON need not be valid.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Outline {
    /// The message's type.
    pub(crate) kind: String,
    /// A control request's id.
    pub(crate) request_id: String,
    depth: usize,
    in_string: bool,
    escaped: bool,
    /// The current string, if it is one of the outermost object.
    text: Vec<u8>,
    /// The key whose value comes next.
    key: Option<Vec<u8>>,
}

impl Outline {
    pub(crate) fn feed(&mut self, bytes: &[u8]) {
        for byte in bytes {
            match self.in_string {
                true => self.in_string(*byte),
                false => self.between_strings(*byte),
            }
        }
    }

    fn in_string(&mut self, byte: u8) {
        match byte {
            _ if self.escaped => self.escaped = false,
            b'\\' => self.escaped = true,
            b'"' => {
                self.in_string = false;
                self.take_value();
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

    /// A string has ended: if a key stands before it, it is that key's value.
    fn take_value(&mut self) {
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

    #[test]
    fn the_outermost_fields_are_found_wherever_they_stand() {
        let line = br#"{"a":[{"type":"inner"}],"b":"x\",\"type\":\"no\"","c":{"request_id":"no"},
            "type" : "result","d":{},"request_id":"r1"}"#;
        for size in [1, 7, line.len()] {
            let mut outline = Outline::default();
            line.chunks(size).for_each(|piece| outline.feed(piece));
            assert_eq!((&*outline.kind, &*outline.request_id), ("result", "r1"));
        }
    }

    #[test]
    fn garbage_has_no_outline() {
        let mut outline = Outline::default();
        outline.feed(b"]}}\"type\":\"result\"");
        assert_eq!((&*outline.kind, &*outline.request_id), ("", ""));
    }
}
