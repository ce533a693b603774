//! Globs of guards: over words of a command, and over paths. Matched by hand: a regular expression for each
//! of some hundred globs would cost more than the rest of the judgement.

use std::path::Path;

/// `*`, `?`, `[ab]`; in a path `*` stays within a folder and `**` does not.
fn matches(pattern: &[u8], text: &[u8], is_path: bool) -> bool {
    let (mut p, mut t) = (0, 0);
    // Where the last `*` and the last `**` stand, and how much of the text each has taken.
    let mut star: Option<(usize, usize)> = None;
    let mut deep: Option<(usize, usize)> = None;
    loop {
        if pattern[p..].starts_with(b"**") {
            // `a/**/b` is `a/b` too.
            p += if pattern[p + 2..].starts_with(b"/") && (p == 0 || pattern[p - 1] == b'/') {
                3
            } else {
                2
            };
            (deep, star) = (Some((p, t)), None);
            continue;
        }
        if pattern.get(p) == Some(&b'*') {
            p += 1;
            star = Some((p, t));
            continue;
        }
        if p == pattern.len() && t == text.len() {
            return true;
        }
        if t < text.len()
            && let Some(next) = one(&pattern[p..], text[t], is_path)
        {
            (p, t) = (p + next, t + 1);
            continue;
        }
        match (star, deep) {
            (Some((after, taken)), _)
                if taken < text.len() && !(is_path && text[taken] == b'/') =>
            {
                star = Some((after, taken + 1));
                (p, t) = (after, taken + 1);
            }
            (_, Some((after, taken))) if taken < text.len() => {
                // Behind `**/` a name begins at its beginning.
                let step = match pattern[..after].ends_with(b"/") {
                    true => text[taken..].iter().position(|byte| *byte == b'/'),
                    false => Some(0),
                };
                let Some(step) = step else { return false };
                (deep, star) = (Some((after, taken + step + 1)), None);
                (p, t) = (after, taken + step + 1);
            }
            _ => return false,
        }
    }
}

/// How much of the pattern stands for this byte.
fn one(pattern: &[u8], byte: u8, is_path: bool) -> Option<usize> {
    match pattern.first()? {
        b'?' if is_path && byte == b'/' => None,
        b'?' => Some(1),
        b'[' => {
            let end = pattern.iter().skip(2).position(|it| *it == b']')? + 2;
            let set = &pattern[1..end];
            let (is_not, set) = match set {
                [b'!' | b'^', rest @ ..] => (true, rest),
                _ => (false, set),
            };
            let mut at = 0;
            let mut is_in = false;
            while at < set.len() {
                let (from, to, next) = match set[at..] {
                    [from, b'-', to, ..] => (from, to, at + 3),
                    _ => (set[at], set[at], at + 1),
                };
                is_in |= (from..=to).contains(&byte);
                at = next;
            }
            (is_in != is_not).then_some(end + 1)
        }
        b'\\' if pattern.len() > 1 => (pattern[1] == byte).then_some(2),
        literal => (*literal == byte).then_some(1),
    }
}

const SPECIAL: [char; 4] = ['*', '?', '[', '\\'];

/// The alternatives of `{a,b}`, written out.
fn alternatives(pattern: &str) -> Vec<String> {
    let braces = pattern.find('{').and_then(|open| {
        let close = open + pattern[open..].find('}')?;
        Some((open, close))
    });
    let Some((open, close)) = braces else {
        return vec![pattern.to_owned()];
    };
    let (before, after) = (&pattern[..open], &pattern[close + 1..]);
    (pattern[open + 1..close].split(','))
        .flat_map(|middle| alternatives(&format!("{before}{middle}{after}")))
        .collect()
}

/// Globs over words: `*` is any text. One without a `!` has to match, and none with it.
#[derive(Debug, Clone, Default)]
pub struct Words {
    wanted: Vec<String>,
    unwanted: Vec<String>,
}

impl Words {
    pub fn parse(globs: &[String]) -> Self {
        let mut words = Self::default();
        for glob in globs {
            match glob.strip_prefix('!') {
                Some(rest) => words.unwanted.extend(alternatives(rest)),
                None => words.wanted.extend(alternatives(glob)),
            }
        }
        words
    }

    pub fn is_empty(&self) -> bool {
        self.wanted.is_empty() && self.unwanted.is_empty()
    }

    /// Whether these words satisfy it.
    pub fn take<'a>(&self, words: &(impl Iterator<Item = &'a str> + Clone)) -> bool {
        let any = |globs: &[String]| {
            let mut words = words.clone();
            words.any(|word| globs.iter().any(|glob| word_matches(glob, word)))
        };
        (self.wanted.is_empty() || any(&self.wanted)) && !any(&self.unwanted)
    }
}

pub fn word_matches(glob: &str, word: &str) -> bool {
    // Most differ in the first letter.
    if let [first, ..] = glob.as_bytes()
        && !b"*?[".contains(first)
        && word.as_bytes().first() != Some(first)
    {
        return false;
    }
    // Most that begin with a star end with one, and are a text between them.
    let between = glob.strip_prefix('*').and_then(|it| it.strip_suffix('*'));
    match between.filter(|text| !text.contains(SPECIAL)) {
        Some(text) => word.contains(text),
        None => matches(glob.as_bytes(), word.as_bytes(), false),
    }
}

/// Globs over absolute paths; `!` takes away again, the last that matches wins.
///
/// One without a `/` is a name at any depth, anywhere; `~/…` is below the user's home, `/…` and `**/…`
/// absolute; any other is relative to the project. A folder stands for all that is in it.
#[derive(Debug, Clone, Default)]
pub struct Paths(Vec<PathGlob>);

#[derive(Debug, Clone)]
struct PathGlob {
    base: Base,
    pattern: String,
    /// A name that the pattern matches.
    sample: String,
    /// How much of the pattern has no special character.
    literal: usize,
    /// Of the last name in the pattern that is more than `*`.
    ends: Ends,
    takes: bool,
}

/// The first and the last letters of names, a bit each: most globs differ there from all names of a path.
#[derive(Debug, Clone, Copy)]
pub struct Ends(u64, u64);

impl Ends {
    pub const NONE: Self = Self(0, 0);
    pub const ANY: Self = Self(u64::MAX, u64::MAX);

    pub fn with(self, other: Self) -> Self {
        Self(self.0 | other.0, self.1 | other.1)
    }

    /// Of every name in a path.
    fn of_path(path: &str) -> Self {
        // The highest bit is for globs that match any letter, or no name at all.
        names(path).fold(Self(1 << 63, 1 << 63), |all, name| all.with(Self::of(name)))
    }

    fn of(name: &[u8]) -> Self {
        let bit = |byte: Option<&u8>| match byte {
            Some(byte) if byte.is_ascii() && !b"*?[]\\".contains(byte) => 1 << (byte & 63),
            _ => u64::MAX,
        };
        Self(bit(name.first()), bit(name.last()))
    }

    pub fn meet(self, other: Self) -> bool {
        self.0 & other.0 != 0 && self.1 & other.1 != 0
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Base {
    Name,
    Home,
    Project,
    Root,
}

/// Where globs are relative to.
#[derive(Debug, Clone, Copy)]
pub struct Bases<'a> {
    home: &'a str,
    project: &'a str,
}

impl<'a> Bases<'a> {
    pub fn new(home: &'a Path, project: &'a Path) -> Self {
        let text = |path: &'a Path| path.to_str().unwrap_or_default().trim_end_matches('/');
        Self {
            home: text(home),
            project: text(project),
        }
    }
}

/// A path as globs look at it.
#[derive(Debug, Clone, Copy)]
pub struct Located {
    pub ends: Ends,
    /// A glob of the shell stands in it.
    is_glob: bool,
    home: Side,
    project: Side,
}

/// Where a path lies, seen from a folder.
#[derive(Debug, Clone, Copy)]
enum Side {
    /// In it; the rest begins there.
    Below(usize),
    Above,
    Apart,
}

impl Bases<'_> {
    pub fn locate(&self, path: &str) -> Located {
        let is_below = |path: &str, folder: &str| {
            let rest = path.strip_prefix(folder);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let side = |base: &str| match () {
            () if is_below(path, base) => Side::Below((base.len() + 1).min(path.len())),
            () if is_below(base, path.trim_end_matches('/')) => Side::Above,
            () => Side::Apart,
        };
        Located {
            ends: Ends::of_path(path),
            is_glob: path.contains(SPECIAL),
            home: side(self.home),
            project: side(self.project),
        }
    }
}

impl Paths {
    pub fn parse(globs: &[String]) -> Result<Self, String> {
        let mut all = Vec::new();
        for glob in globs {
            let (takes, rest) = match glob.strip_prefix('!') {
                Some(rest) => (false, rest),
                None => (true, &**glob),
            };
            let rest = rest.trim_end_matches('/');
            let (base, rest) = match (rest, rest.strip_prefix("~/")) {
                ("~", _) => (Base::Home, ""),
                (_, Some(rest)) => (Base::Home, rest),
                _ if rest.starts_with('/') => (Base::Root, &rest[1..]),
                _ if rest.starts_with("**/") => (Base::Root, rest),
                _ if !rest.contains('/') => (Base::Name, rest),
                _ => (Base::Project, rest.trim_start_matches("./")),
            };
            if rest.is_empty() && base != Base::Home {
                return Err(format!("the path \"{glob}\" names nothing"));
            }
            all.extend(alternatives(rest).into_iter().map(|pattern| {
                let mut names = pattern.rsplit('/');
                let name = names.find(|name| !name.trim_matches('*').is_empty());
                PathGlob {
                    base,
                    sample: pattern.replace("**", "x").replace(['*', '?'], "x"),
                    literal: pattern.find(SPECIAL).unwrap_or(pattern.len()),
                    ends: Ends::of(name.unwrap_or_default().as_bytes()),
                    pattern,
                    takes,
                }
            }));
        }
        Ok(Self(all))
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Of the names that a path of them has.
    pub fn ends(&self) -> Ends {
        let wanted = self.0.iter().filter(|glob| glob.takes);
        let all = wanted.map(|glob| glob.ends).reduce(Ends::with);
        all.unwrap_or(Ends::ANY)
    }

    /// Whether it is one of them. `recursive`: so is a folder that has one of them in it.
    pub fn matches(&self, path: &str, located: &Located, recursive: bool) -> bool {
        let found = self.0.iter().rev();
        let mut found = found.filter(|glob| {
            let meets = glob.ends.meet(located.ends);
            if !recursive {
                return meets && glob.matches(path, located, false);
            }
            // `**/x` may be anywhere: no folder but the root is known to be above it.
            let has_place = match glob.base {
                Base::Name => false,
                Base::Root => glob.literal > 0 || path == "/",
                Base::Home | Base::Project => true,
            };
            let recursive = glob.takes && has_place;
            (recursive || meets) && glob.matches(path, located, recursive)
        });
        match found.next() {
            Some(glob) => glob.takes,
            None => self.0.iter().all(|glob| !glob.takes),
        }
    }
}

impl PathGlob {
    fn matches(&self, path: &str, located: &Located, recursive: bool) -> bool {
        let below = match self.base {
            // A folder of that name stands for what is in it.
            Base::Name => {
                return names(path).any(|name| self.is_name(name, located.is_glob));
            }
            Base::Home => located.home,
            Base::Project => located.project,
            Base::Root if path.starts_with('/') => Side::Below(1),
            Base::Root => Side::Apart,
        };
        let rest = match below {
            Side::Below(at) => &path[at..],
            Side::Above => return recursive,
            Side::Apart => return false,
        };
        if rest.is_empty() {
            return recursive || matches(self.pattern.as_bytes(), b"", true);
        }
        let literal = &self.pattern[..self.literal];
        if !literal.is_empty() && literal.as_bytes()[0] != rest.as_bytes()[0] {
            return false;
        }
        // The name in `**/name/…` has to be there.
        let name = self.pattern.strip_prefix("**/").unwrap_or_default();
        let name = name.find(SPECIAL).map_or(name, |end| &name[..end]);
        if rest.starts_with(literal) && rest.contains(name.trim_end_matches('/')) {
            let pattern = self.pattern.as_bytes();
            let folders = rest.match_indices('/').map(|(at, _)| &rest[..at]);
            let mut folders = folders.filter(|_| !self.pattern.ends_with("**"));
            if matches(pattern, rest.as_bytes(), true)
                || folders.any(|folder| matches(pattern, folder.as_bytes(), true))
            {
                return true;
            }
        }
        let above = literal.trim_end_matches('/').strip_prefix(rest);
        recursive && above.is_some_and(|it| it.is_empty() || it.starts_with('/'))
    }

    /// A name of the command may itself be a glob of the shell: `.e*` may be `.env`.
    fn is_name(&self, name: &[u8], is_glob: bool) -> bool {
        if name == self.pattern.as_bytes() {
            return true;
        }
        let is_literal = self.literal == self.pattern.len();
        if is_literal && !is_glob || !self.ends.meet(Ends::of(name)) {
            return false;
        }
        if matches(self.pattern.as_bytes(), name, true) {
            return true;
        }
        let letters = name.iter().filter(|byte| !b"*?[]".contains(byte)).count();
        let is_glob = is_glob && name.iter().any(|byte| b"*?[".contains(byte));
        self.takes && is_glob && letters > 1 && matches(name, self.sample.as_bytes(), true)
    }
}

fn names(path: &str) -> impl Iterator<Item = &[u8]> {
    let names = path.as_bytes().split(|byte| *byte == b'/');
    names.filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words() {
        for (glob, word, expected) in [
            ("*prod*", "db.prod.internal", true),
            ("*prod*", "staging", false),
            ("--force", "--force-with-lease", false),
            ("+*", "+main", true),
            ("a?c", "abc", true),
            ("[ab]x", "bx", true),
            ("[!ab]x", "bx", false),
            ("*a*b", "xaxxb", true),
            ("*a*b", "xaxxbc", false),
            ("", "", true),
        ] {
            assert_eq!(word_matches(glob, word), expected, "{glob} {word}");
        }
        let words = Words::parse(&["{drop,delete}".into(), "!--dry-run".into()]);
        assert!(words.take(&["x", "delete"].into_iter()));
        assert!(!words.take(&["delete", "--dry-run"].into_iter()));
        assert!(!words.take(&["x"].into_iter()));
    }

    #[test]
    fn paths() {
        let bases = Bases::new(Path::new("/home/u"), Path::new("/home/u/p"));
        let globs = |text: &str| {
            let globs: Vec<String> = text.split(' ').map(str::to_owned).collect();
            Paths::parse(&globs).unwrap()
        };
        for (text, path, expected) in [
            (".env", "/home/u/p/deep/.env", true),
            (".env", "/srv/.env", true),
            (".env", "/srv/x.env", false),
            (".env .env.* !.env.example", "/p/.env.local", true),
            (".env .env.* !.env.example", "/p/.env.example", false),
            (".env", "/home/u/p/.e*", true),
            (".env", "/home/u/p/*", false),
            ("~/.ssh/**", "/home/u/.ssh/id_rsa", true),
            ("~/.ssh/**", "/home/v/.ssh/id_rsa", false),
            ("~/.ssh", "/home/u/.ssh/id_rsa", true),
            ("src/**/*.rs", "/home/u/p/src/lib.rs", true),
            ("src/**/*.rs", "/home/u/p/src/a/b.rs", true),
            ("src/**/*.rs", "/home/u/src/b.rs", false),
            ("src/*.rs", "/home/u/p/src/a/b.rs", false),
            ("/etc/**", "/etc/passwd", true),
            ("/etc", "/etc/ssl/x", true),
            ("/etc", "/etcetera", false),
            ("**/bin/becket", "/home/u/.local/bin/becket", true),
            ("**/bin/becket", "/home/u/.local/xbin/becket", false),
            ("~", "/home/u", true),
            ("~/**", "/home/u", true),
            ("!*.md", "/x/y.rs", true),
            ("!*.md", "/x/y.md", false),
        ] {
            let globs = globs(text);
            assert_eq!(
                globs.matches(path, &bases.locate(path), false),
                expected,
                "{text} {path}"
            );
        }
        let ssh = globs("~/.ssh/**");
        assert!(
            ssh.matches("/home/u", &bases.locate("/home/u"), true),
            "what is in it goes with it"
        );
        assert!(ssh.matches("/", &bases.locate("/"), true));
        assert!(!ssh.matches("/home/u/p", &bases.locate("/home/u/p"), true));
        assert!(Paths::parse(&["".to_owned()]).is_err());
    }
}
