//! Reads the strings of a payload, and maps places in them back to the payload's own bytes.

use std::borrow::Cow;
use std::ops::Range;

/// One string of a JSON text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JsonString {
    /// The range between the quotes.
    pub inside: Range<usize>,
    /// True if it names a field of an object.
    pub is_key: bool,
}

/// Returns the strings of a JSON text, in order. The text must be valid: nothing is checked here.
pub fn strings(json: &[u8]) -> impl Iterator<Item = JsonString> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let start = at + memchr::memchr(b'"', &json[at..])? + 1;
        let end = end_of_string(json, start)?;
        at = end + 1;
        let next = json[at..]
            .iter()
            .find(|byte| !matches!(byte, b' ' | b'\t' | b'\n' | b'\r'));
        Some(JsonString {
            inside: start..end,
            is_key: next == Some(&b':'),
        })
    })
}

fn end_of_string(json: &[u8], mut at: usize) -> Option<usize> {
    loop {
        let stop = at + memchr::memchr2(b'"', b'\\', json.get(at..)?)?;
        if json[stop] == b'"' {
            return Some(stop);
        }
        at = stop + 2;
    }
}

/// A text with its escapes resolved, and the way back to its source.
#[derive(Debug)]
pub struct Text<'a> {
    pub bytes: Cow<'a, [u8]>,
    /// The starts of the stretches that are equal in text and source: (in the text, in the source). Empty if the
    /// text is the source.
    stretches: Vec<(usize, usize)>,
}

impl<'a> Text<'a> {
    /// Reads the inside of a JSON string. An unknown escape stays as it is, so that any other text can be read as
    /// well: a file name in it may look odd then, a secret does not.
    pub fn read(source: &'a [u8]) -> Self {
        let Some(first) = memchr::memchr(b'\\', source) else {
            return Self {
                bytes: Cow::Borrowed(source),
                stretches: Vec::new(),
            };
        };
        let mut bytes = Vec::with_capacity(source.len());
        let mut stretches = vec![(0, 0)];
        let (mut from, mut escape) = (0, first);
        loop {
            bytes.extend_from_slice(&source[from..escape]);
            stretches.push((bytes.len(), escape));
            from = escape + resolve(&source[escape..], &mut bytes);
            stretches.push((bytes.len(), from));
            match memchr::memchr(b'\\', &source[from..]) {
                Some(next) => escape = from + next,
                None => break,
            }
        }
        bytes.extend_from_slice(&source[from..]);
        Self {
            bytes: Cow::Owned(bytes),
            stretches,
        }
    }

    /// Returns the range in the source of a part of the text. The part is made of whole characters.
    pub fn in_source(&self, part: &Range<usize>) -> Range<usize> {
        self.back(part.start)..self.back(part.end)
    }

    fn back(&self, at: usize) -> usize {
        let after = self.stretches.partition_point(|&(text, _)| text <= at);
        match after.checked_sub(1) {
            Some(index) => {
                let (text, source) = self.stretches[index];
                source + (at - text)
            }
            None => at,
        }
    }
}

/// Moves the ends of a part outwards to whole characters, because an escape cannot be cut.
pub fn whole_characters(text: &[u8], part: Range<usize>) -> Range<usize> {
    let (mut start, mut end) = (part.start, part.end);
    while start > 0 && part.start - start < 3 && is_inside_character(text, start) {
        start -= 1;
    }
    while end - part.end < 3 && is_inside_character(text, end) {
        end += 1;
    }
    start..end
}

/// Returns true if a character of UTF-8 goes on at `at`.
fn is_inside_character(text: &[u8], at: usize) -> bool {
    text.get(at)
        .is_some_and(|byte| (0x80..=0xBF).contains(byte))
}

/// Resolves the escape at the beginning of `source`, and returns its length.
fn resolve(source: &[u8], out: &mut Vec<u8>) -> usize {
    let plain = match source.get(1) {
        Some(b'n') => b'\n',
        Some(b't') => b'\t',
        Some(b'r') => b'\r',
        Some(b'b') => 0x08,
        Some(b'f') => 0x0C,
        Some(&byte @ (b'"' | b'\\' | b'/')) => byte,
        Some(b'u') => return resolve_unicode(source, out),
        _ => {
            out.push(b'\\');
            return 1;
        }
    };
    out.push(plain);
    2
}

fn resolve_unicode(source: &[u8], out: &mut Vec<u8>) -> usize {
    let Some(unit) = code_unit(source) else {
        out.push(b'\\');
        return 1;
    };
    let pair = match unit {
        0xD800..=0xDBFF => code_unit(&source[6..])
            .filter(|low| (0xDC00..=0xDFFF).contains(low))
            .map(|low| 0x1_0000 + ((unit - 0xD800) << 10) + (low - 0xDC00)),
        _ => None,
    };
    let character = char::from_u32(pair.unwrap_or(unit)).unwrap_or(char::REPLACEMENT_CHARACTER);
    out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
    if pair.is_some() { 12 } else { 6 }
}

/// Returns the number in `\uXXXX`.
fn code_unit(source: &[u8]) -> Option<u32> {
    let digits = source.strip_prefix(br"\u")?.get(..4)?;
    digits.iter().try_fold(0, |number, &digit| {
        Some(number << 4 | char::from(digit).to_digit(16)?)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn found(json: &str) -> Vec<(&str, bool)> {
        strings(json.as_bytes())
            .map(|string| (&json[string.inside], string.is_key))
            .collect()
    }

    #[test]
    fn finds_strings_and_tells_keys_from_values() {
        assert_eq!(
            found(r#"{"a" : "b:", "c\"": ["d\\", 1, {"": "\\\"e"}]}"#),
            [
                ("a", true),
                ("b:", false),
                (r#"c\""#, true),
                (r"d\\", false),
                ("", true),
                (r#"\\\"e"#, false),
            ]
        );
        assert_eq!(found(r#"{"open": "en"#), [("open", true)]);
    }

    #[test]
    fn an_unknown_escape_stays() {
        for odd in [r"C:\users\x", r"\u12", r"\", r"\ud83", r"\u00zz"] {
            assert_eq!(&*Text::read(odd.as_bytes()).bytes, odd.as_bytes());
        }
        assert_eq!(
            &*Text::read(br"\ud83d!\udc00").bytes,
            "\u{fffd}!\u{fffd}".as_bytes()
        );
    }

    #[test]
    fn a_part_of_a_character_is_the_whole_of_it() {
        let source = r"a\u00e9b\ud83d\ude00cé";
        let text = Text::read(source.as_bytes());
        assert_eq!(&*text.bytes, "aéb😀cé".as_bytes());
        let whole = |part| &source[text.in_source(&whole_characters(&text.bytes, part))];
        assert_eq!(whole(2..3), r"\u00e9");
        assert_eq!(whole(5..6), r"\ud83d\ude00");
        assert_eq!(whole(8..10), "cé");
    }

    /// One character, and the ways in which JSON may write it.
    fn written() -> impl Strategy<Value = (char, String)> {
        (any::<char>(), any::<bool>()).prop_map(|(character, escaped)| {
            let must = character < ' ' || character == '"' || character == '\\';
            let mut units = [0; 2];
            let text = if escaped || must {
                character
                    .encode_utf16(&mut units)
                    .iter()
                    .map(|unit| format!("\\u{unit:04x}"))
                    .collect()
            } else {
                character.to_string()
            };
            (character, text)
        })
    }

    proptest! {
        #[test]
        fn reads_as_serde_does(value in any::<String>()) {
            let json = serde_json::to_string(&value).unwrap();
            let text = Text::read(&json.as_bytes()[1..json.len() - 1]);
            prop_assert_eq!(&*text.bytes, value.as_bytes());
        }

        #[test]
        fn the_way_back_leads_to_the_same_characters(
            characters in prop::collection::vec(written(), 1..20),
            from in any::<prop::sample::Index>(),
            to in any::<prop::sample::Index>(),
        ) {
            let (mut from, mut to) = (from.index(characters.len()), to.index(characters.len()));
            if from > to {
                (from, to) = (to, from);
            }
            let source: String = characters.iter().map(|(_, text)| text.as_str()).collect();
            let length = |part: &[(char, String)]| part.iter().map(|(c, _)| c.len_utf8()).sum::<usize>();
            let start = length(&characters[..from]);
            let part = start..start + length(&characters[from..=to]);
            let expected: String = characters[from..=to].iter().map(|(_, text)| text.as_str()).collect();
            let text = Text::read(source.as_bytes());
            prop_assert_eq!(&source[text.in_source(&part)], expected);
        }
    }
}
