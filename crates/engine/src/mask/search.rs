//! The search for secrets in a text: for needles first, which is fast, then for what follows them.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::OnceLock;

use memchr::memmem;
use regex::bytes::{Regex, RegexBuilder};

use super::kind::{HIDING, KINDS, Kind, PRIVATE_KEY};

/// A private key is not looked for further than this.
const MAX_PRIVATE_KEY: usize = 64 * 1024;
/// Fewer characters of base64 in one run are no private key, but somebody's words about one.
const MIN_KEY_RUN: usize = 12;

/// A secret, and where it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found<'a> {
    pub kind: &'a str,
    pub at: Range<usize>,
}

/// The search, made ready once. What a needle announces is compiled when it first turns up: alone
/// mode makes a search for a single event, and would pay two milliseconds for nothing.
#[derive(Debug)]
pub struct Search {
    needles: Regex,
    kinds: Vec<(&'static Kind, Lazy)>,
    /// Which kinds a needle announces, in order of the needles.
    announced: BTreeMap<&'static [u8], Vec<usize>>,
    private_key_end: Lazy,
    private_key_cut: Lazy,
}

/// What ends a private key.
const PRIVATE_KEY_END: &str = r"-----END [A-Z0-9 ]{0,32}PRIVATE KEY(?: BLOCK)?-----";
/// What is left of one that was cut off: lines of base64.
const PRIVATE_KEY_CUT: &str = r"(?:\s|\\[nr])*[A-Za-z0-9+/]{40,}(?:[A-Za-z0-9+/=]|\s|\\[nr])*";

impl Search {
    pub fn new() -> Self {
        let mut announced: BTreeMap<&[u8], Vec<usize>> = BTreeMap::new();
        for (index, kind) in KINDS.iter().enumerate() {
            for needle in kind.needles {
                announced.entry(needle.as_bytes()).or_default().push(index);
            }
        }
        let mut all: Vec<String> = KINDS
            .iter()
            .flat_map(|kind| kind.needles)
            .chain(HIDING)
            .map(|needle| regex::escape(needle))
            .collect();
        all.sort();
        all.dedup();
        Self {
            needles: built_in(&all.join("|")),
            announced,
            kinds: KINDS
                .iter()
                .map(|kind| (kind, Lazy::new(kind.pattern)))
                .collect(),
            private_key_end: Lazy::new(PRIVATE_KEY_END),
            private_key_cut: Lazy::new(PRIVATE_KEY_CUT),
        }
    }

    /// Where the next needle stands: before it, there is no secret.
    pub fn next_needle(&self, bytes: &[u8], from: usize) -> Option<usize> {
        Some(self.needles.find_at(bytes, from)?.start())
    }

    /// The secrets in a text, in order.
    pub fn find(&self, text: &[u8]) -> Vec<Found<'static>> {
        let mut found = Vec::new();
        let mut from = 0;
        while let Some(needle) = self.needles.find_at(text, from) {
            from = match self.secret(text, needle.start(), needle.as_bytes()) {
                Some(secret) => {
                    let end = secret.at.end;
                    found.push(secret);
                    end
                }
                None => needle.start() + 1,
            };
        }
        found
    }

    /// The secret that the needle at `start` announces.
    fn secret(&self, text: &[u8], start: usize, needle: &[u8]) -> Option<Found<'static>> {
        self.announced.get(needle)?.iter().find_map(|&index| {
            let (kind, pattern) = &self.kinds[index];
            if kind.alone && !stands_alone(text, start) {
                return None;
            }
            let pattern = pattern.get();
            // Most needles announce nothing, and groups cost more than a yes or no.
            if !pattern.is_match(&text[start..]) {
                return None;
            }
            let groups = pattern.captures(&text[start..])?;
            let secret = groups.get(1).or(groups.get(0))?;
            let mut at = start + secret.start()..start + secret.end();
            if kind.name == PRIVATE_KEY {
                at.end = self.end_of_private_key(text, at.end)?;
            }
            (kind.check)(&text[at.clone()]).then_some(Found {
                kind: kind.name,
                at,
            })
        })
    }

    /// Where a private key ends whose first line ends at `from`. One that was cut off ends with its
    /// last line of base64.
    fn end_of_private_key(&self, text: &[u8], from: usize) -> Option<usize> {
        let rest = &text[from..text.len().min(from + MAX_PRIVATE_KEY)];
        let whole = memmem::find(rest, b"-----")
            .filter(|&body| rest[..body].is_ascii() && longest_run(&rest[..body]) >= MIN_KEY_RUN)
            .and_then(|body| Some(body + self.private_key_end.get().find(&rest[body..])?.end()));
        let cut = || Some(self.private_key_cut.get().find(rest)?.end());
        Some(from + whole.or_else(cut)?)
    }
}

/// A regex in which classes, `.` and `\b` mean bytes: a payload need not be UTF-8.
pub fn ascii(pattern: &str) -> Result<Regex, regex::Error> {
    RegexBuilder::new(pattern).unicode(false).build()
}

/// A pattern at the start of a text, compiled when it is first needed.
#[derive(Debug)]
struct Lazy {
    pattern: &'static str,
    regex: OnceLock<Regex>,
}

impl Lazy {
    fn new(pattern: &'static str) -> Self {
        Self {
            pattern,
            regex: OnceLock::new(),
        }
    }

    fn get(&self) -> &Regex {
        self.regex
            .get_or_init(|| built_in(&format!("^(?:{})", self.pattern)))
    }
}

fn built_in(pattern: &str) -> Regex {
    ascii(pattern).expect("a built-in pattern compiles: the tests use every one")
}

/// Whether no word goes on at `at`. The letter before it may be the end of an escape that was
/// escaped again (`\n` in a text in a text), of a colour for the terminal, or of `%3D`.
fn stands_alone(text: &[u8], at: usize) -> bool {
    let before = &text[..at];
    match before {
        [.., b'\\', b'n' | b'r' | b't' | b'b' | b'f'] => true,
        [.., b'\\', b'u', a, b, c, d] => [a, b, c, d].iter().all(|byte| byte.is_ascii_hexdigit()),
        [.., b'%', a, b] if a.is_ascii_hexdigit() && b.is_ascii_hexdigit() => true,
        [sequence @ .., b'm' | b'K'] => sequence
            .iter()
            .rev()
            .find(|byte| !matches!(byte, b'0'..=b'9' | b';'))
            .is_some_and(|byte| *byte == b'['),
        [.., last] => !last.is_ascii_alphanumeric(),
        [] => true,
    }
}

fn longest_run(body: &[u8]) -> usize {
    body.split(|byte| !matches!(byte, b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'+' | b'/' | b'='))
        .map(<[u8]>::len)
        .max()
        .unwrap_or(0)
}
