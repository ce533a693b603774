//! Masks secrets before anything is stored. Only the secret's own characters change, inside string values, so that
//! the rest stays readable and the same secret gets the same mask.

mod secret_kind;
mod text;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::sync::LazyLock;

use becket_wire::rpc::Envelope;
use memchr::memmem;
use regex::bytes::{Regex, RegexBuilder};
use secret_kind::{HIDING, KINDS, PRIVATE_KEY, SecretKind};
use serde::de::IgnoredAny;
use text::{Text, strings, whole_characters};
use thiserror::Error;

use crate::config::Config;
use crate::trust::hash_of;

/// The number of passes over a text. A pattern may match anew once its first matches are masked (`\b[0-9]{4}` in
/// a long number), so masking goes on until nothing matches, up to this bound.
const MAX_PASSES: usize = 16;

const OPEN: &[u8] = "«masked:".as_bytes();
const CLOSE: &[u8] = "»".as_bytes();

/// Masks secrets. One masker serves all events.
pub struct Masker {
    key: [u8; 32],
    search: Search,
    extra: Vec<(String, Regex)>,
    enabled: bool,
}

/// A payload without its secrets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Masked<'a> {
    pub bytes: Cow<'a, [u8]>,
    /// The number of secrets that were masked.
    pub count: u32,
}

/// A pattern that cannot be used.
#[derive(Debug, Error)]
pub enum MaskError {
    #[error(
        "the name \"{}\" of a mask pattern has other characters than a-z, 0-9, '-' and '_', or more than 32", .0.escape_debug()
    )]
    Name(String),
    #[error("the mask pattern \"{}\" is not a regex: {source}", .name.escape_debug())]
    Pattern { name: String, source: regex::Error },
    #[error("the mask pattern \"{}\" matches the empty text", .0.escape_debug())]
    Empty(String),
}

impl Masker {
    /// Makes the masker of a config, whose patterns were checked when it was read. `key` makes the hashes of this
    /// machine its own. Of a pattern with a group, only the first group is masked.
    pub fn from_config(key: [u8; 32], config: &Config) -> Self {
        let patterns = config.mask.patterns.iter();
        Self {
            key,
            search: Search::new(),
            extra: patterns
                .filter_map(|(name, pattern)| {
                    Some((name.clone(), check_pattern(name, pattern).ok()?))
                })
                .collect(),
            enabled: config.mask.enabled,
        }
    }

    pub fn mask<'a>(&self, payload: &'a [u8]) -> Masked<'a> {
        let (bytes, count) = if !self.enabled || !self.may_have_secrets(payload) {
            (Cow::Borrowed(payload), 0)
        } else if is_json(payload) {
            self.mask_json(payload)
        } else {
            self.mask_text(b"", payload)
        };
        Masked { bytes, count }
    }

    fn may_have_secrets(&self, payload: &[u8]) -> bool {
        !self.extra.is_empty() || self.search.next_needle(payload, 0).is_some()
    }

    /// Masks one text.
    pub fn text(&self, text: &str) -> String {
        String::from_utf8_lossy(&self.mask(text.as_bytes()).bytes).into_owned()
    }

    /// Masks the variables that an envelope carries.
    pub fn envelope(&self, envelope: &mut Envelope) {
        for value in envelope.variables.values_mut() {
            if let Masked { bytes, count: 1.. } = self.mask(value.as_bytes()) {
                *value = String::from_utf8_lossy(&bytes).into_owned();
            }
        }
    }

    fn mask_json<'a>(&self, json: &'a [u8]) -> (Cow<'a, [u8]>, u32) {
        let mut out = Vec::new();
        let (mut copied, mut count) = (0, 0);
        let mut needle = self.search.next_needle(json, 0);
        let mut key = 0..0;
        for string in strings(json) {
            let inside = string.inside;
            if needle.is_some_and(|at| at < inside.start) {
                needle = self.search.next_needle(json, inside.start);
            }
            let suspect = needle.is_some_and(|at| at < inside.end);
            if string.is_key {
                key = if suspect { inside } else { 0..0 };
                continue;
            }
            let key = std::mem::take(&mut key);
            if !suspect && key.is_empty() && self.extra.is_empty() {
                if needle.is_none() {
                    break;
                }
                continue;
            }
            let (masked, more) = self.mask_text(&json[key], &json[inside.clone()]);
            if more > 0 {
                out.extend_from_slice(&json[copied..inside.start]);
                out.extend_from_slice(&masked);
                copied = inside.end;
                count += more;
            }
        }
        if count == 0 {
            return (Cow::Borrowed(json), 0);
        }
        out.extend_from_slice(&json[copied..]);
        (Cow::Owned(out), count)
    }

    /// Masks the inside of one string. `key` is the name of its field, if that may matter.
    fn mask_text<'a>(&self, key: &[u8], source: &'a [u8]) -> (Cow<'a, [u8]>, u32) {
        let mut current = Cow::Borrowed(source);
        let mut count = 0;
        for _ in 0..MAX_PASSES {
            let Some((masked, more)) = self.pass(key, &current) else {
                break;
            };
            current = Cow::Owned(masked);
            count += more;
        }
        (current, count)
    }

    fn pass(&self, key: &[u8], source: &[u8]) -> Option<(Vec<u8>, u32)> {
        let text = Text::read(source);
        let secrets = self.secrets(key, &text.bytes);
        if secrets.is_empty() {
            return None;
        }
        let mut out = Vec::with_capacity(source.len());
        let mut copied = 0;
        for secret in &secrets {
            let at = text.in_source(&secret.at);
            out.extend_from_slice(&source[copied..at.start]);
            out.extend_from_slice(OPEN);
            out.extend_from_slice(secret.kind.as_bytes());
            out.push(b':');
            out.extend_from_slice(self.hash(&text.bytes[secret.at.clone()]).as_bytes());
            out.extend_from_slice(CLOSE);
            copied = at.end;
        }
        out.extend_from_slice(&source[copied..]);
        Some((out, u32::try_from(secrets.len()).unwrap_or(u32::MAX)))
    }

    /// Returns the secrets in a text: in order, without overlaps and without those that are masked already.
    fn secrets(&self, key: &[u8], text: &[u8]) -> Vec<Secret<'_>> {
        let mut found: Vec<Secret<'_>> = if key.is_empty() {
            self.search.find(text)
        } else {
            self.named_secrets(key, text)
        };
        for (name, pattern) in &self.extra {
            found.extend(pattern.captures_iter(text).filter_map(|groups| {
                let secret = groups.get(1).or(groups.get(0))?;
                (!secret.is_empty()).then(|| Secret {
                    kind: name,
                    at: whole_characters(text, secret.range()),
                })
            }));
        }
        if found.is_empty() {
            return found;
        }
        found.sort_by_key(|secret| secret.at.start);
        found.dedup_by(|next, before| {
            let overlap = next.at.start < before.at.end;
            if overlap {
                before.at.end = before.at.end.max(next.at.end);
            }
            overlap
        });
        without_masks(found, &masks_in(text))
    }

    /// Returns the secrets in a value, which may be secret because of its key.
    fn named_secrets(&self, key: &[u8], text: &[u8]) -> Vec<Secret<'static>> {
        let mut named = Text::read(key).bytes.into_owned();
        named.extend_from_slice(b": ");
        let start = named.len();
        named.extend_from_slice(text);
        let mut found = self.search.find(&named);
        found.retain(|secret| secret.at.start >= start);
        for secret in &mut found {
            secret.at = secret.at.start - start..secret.at.end - start;
        }
        found
    }

    fn hash(&self, secret: &[u8]) -> String {
        hash_of(&[&self.key, secret].concat())[..8].to_owned()
    }
}

/// Leaves the key out, which must not get into logs.
impl fmt::Debug for Masker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Masker")
            .field("extra", &self.extra)
            .finish_non_exhaustive()
    }
}

/// Compiles a pattern of the user's, or returns its fault.
pub fn check_pattern(name: &str, pattern: &str) -> Result<Regex, MaskError> {
    if name.is_empty() || name.len() > 32 || !name.bytes().all(may_be_in_name) {
        return Err(MaskError::Name(name.to_owned()));
    }
    let regex = ascii(pattern).map_err(|source| MaskError::Pattern {
        name: name.to_owned(),
        source,
    })?;
    if regex.is_match(b"") {
        return Err(MaskError::Empty(name.to_owned()));
    }
    Ok(regex)
}

fn may_be_in_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_')
}

/// Checks the grammar only, without recursion: a payload may be nested to any depth.
fn is_json(payload: &[u8]) -> bool {
    serde_json::from_slice::<IgnoredAny>(payload).is_ok()
}

/// Returns the masks that an earlier masking left in a text.
fn masks_in(text: &[u8]) -> Vec<Range<usize>> {
    memmem::find_iter(text, OPEN)
        .filter_map(|start| {
            let rest = &text[start + OPEN.len()..];
            let end = memmem::find(&rest[..rest.len().min(64)], CLOSE)?;
            let split = end.checked_sub(9)?;
            let (kind, hash) = (&rest[..split], rest[split..end].strip_prefix(b":")?);
            let is_mask =
                hash.iter().all(u8::is_ascii_hexdigit) && kind.iter().copied().all(may_be_in_name);
            is_mask.then_some(start..start + OPEN.len() + end + CLOSE.len())
        })
        .collect()
}

/// Cuts earlier masks out of the secrets that cover them.
fn without_masks<'a>(found: Vec<Secret<'a>>, masks: &[Range<usize>]) -> Vec<Secret<'a>> {
    if masks.is_empty() {
        return found;
    }
    let mut rest = Vec::new();
    for Secret { kind, mut at } in found {
        let end = at.end;
        let first = masks.partition_point(|mask| mask.end <= at.start);
        for mask in masks[first..].iter().take_while(|mask| mask.start < end) {
            if at.start < mask.start {
                rest.push(Secret {
                    kind,
                    at: at.start..mask.start,
                });
            }
            at.start = mask.end;
        }
        if at.start < at.end {
            rest.push(Secret { kind, at });
        }
    }
    rest
}

#[cfg(test)]
mod tests;

/// The number of bytes in which the end of a private key is searched.
const MAX_PRIVATE_KEY: usize = 64 * 1024;
/// The length of a run of base64 from which a text is a private key, and not a text about one.
const MIN_KEY_RUN: usize = 12;

/// A secret and its place in a text.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Secret<'a> {
    kind: &'a str,
    at: Range<usize>,
}

/// The search for secrets. The pattern of a needle is compiled when the needle first turns up: a process without
/// a daemon makes a search for a single event, and would pay two milliseconds for nothing.
struct Search {
    needles: Regex,
    kinds: Vec<(&'static SecretKind, LazyRegex)>,
    /// The kinds that a needle announces, in order of the needles.
    announced: BTreeMap<&'static [u8], Vec<usize>>,
    private_key_end: LazyRegex,
    private_key_cut: LazyRegex,
}

/// A regex that is compiled when it is first needed.
type LazyRegex = LazyLock<Regex, Box<dyn FnOnce() -> Regex + Send>>;

/// The last line of a private key.
const PRIVATE_KEY_END: &str = r"-----END [A-Z0-9 ]{0,32}PRIVATE KEY(?: BLOCK)?-----";
/// The rest of a private key that was cut off: lines of base64.
const PRIVATE_KEY_CUT: &str = r"(?:\s|\\[nr])*[A-Za-z0-9+/]{40,}(?:[A-Za-z0-9+/=]|\s|\\[nr])*";

impl Search {
    fn new() -> Self {
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
                .map(|kind| (kind, at_start(kind.pattern)))
                .collect(),
            private_key_end: at_start(PRIVATE_KEY_END),
            private_key_cut: at_start(PRIVATE_KEY_CUT),
        }
    }

    /// Returns the place of the next needle. Before it, there is no secret.
    fn next_needle(&self, bytes: &[u8], from: usize) -> Option<usize> {
        Some(self.needles.find_at(bytes, from)?.start())
    }

    /// Returns the secrets in a text, in order.
    fn find(&self, text: &[u8]) -> Vec<Secret<'static>> {
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

    /// Returns the secret that the needle at `start` announces.
    fn secret(&self, text: &[u8], start: usize, needle: &[u8]) -> Option<Secret<'static>> {
        self.announced.get(needle)?.iter().find_map(|&index| {
            let (kind, pattern) = &self.kinds[index];
            if kind.alone && !stands_alone(text, start) {
                return None;
            }
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
            (kind.check)(&text[at.clone()]).then_some(Secret {
                kind: kind.name,
                at,
            })
        })
    }

    /// Returns the end of a private key whose first line ends at `from`. A key that was cut off ends with its last
    /// line of base64.
    fn end_of_private_key(&self, text: &[u8], from: usize) -> Option<usize> {
        let rest = &text[from..text.len().min(from + MAX_PRIVATE_KEY)];
        let whole = memmem::find(rest, b"-----")
            .filter(|&body| rest[..body].is_ascii() && longest_run(&rest[..body]) >= MIN_KEY_RUN)
            .and_then(|body| Some(body + self.private_key_end.find(&rest[body..])?.end()));
        let end = match whole {
            Some(end) => end,
            None => self.private_key_cut.find(rest)?.end(),
        };
        Some(from + end)
    }
}

/// Compiles a regex in which classes, `.` and `\b` mean bytes: a payload need not be UTF-8.
fn ascii(pattern: &str) -> Result<Regex, regex::Error> {
    RegexBuilder::new(pattern).unicode(false).build()
}

/// Makes the regex of a pattern at the start of a text.
fn at_start(pattern: &'static str) -> LazyRegex {
    LazyLock::new(Box::new(move || built_in(&format!("^(?:{pattern})"))))
}

fn built_in(pattern: &str) -> Regex {
    ascii(pattern).expect("a built-in pattern compiles: the tests use every one")
}

/// Returns true if no word goes on at `at`. The letter before it may be the end of an escape that was escaped
/// again (`\n` in a text in a text), of a colour for the terminal, or of `%3D`.
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
