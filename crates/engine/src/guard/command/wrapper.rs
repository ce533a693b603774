//! Programs that start the command in their arguments.

use super::word::Value;

/// How to find the command behind a wrapper's name.
#[derive(Debug)]
pub(super) struct Wrapper {
    /// One or two words: `sudo`, `uv run`.
    pub(super) name: &'static str,
    flags: Flags,
    /// Operands before the command: the seconds of `timeout`.
    operands: usize,
    pub(super) elevated: bool,
}

/// Which flags take a value in the next word: letters, and long names separated by blanks.
#[derive(Debug, Clone, Copy)]
pub(super) struct Flags {
    pub(super) short: &'static str,
    pub(super) long: &'static str,
}

pub(super) const fn flags(short: &'static str, long: &'static str) -> Flags {
    Flags { short, long }
}

const fn plain(name: &'static str, flags: Flags, operands: usize) -> Wrapper {
    Wrapper {
        name,
        flags,
        operands,
        elevated: false,
    }
}

const fn elevated(name: &'static str, flags: Flags) -> Wrapper {
    Wrapper {
        name,
        flags,
        operands: 0,
        elevated: true,
    }
}

static WRAPPERS: &[Wrapper] = &[
    elevated(
        "sudo",
        flags(
            "ugpCDhrtTUR",
            "user group prompt chdir host role chroot close-from",
        ),
    ),
    elevated("doas", flags("uC", "")),
    elevated("pkexec", flags("", "user")),
    elevated("run0", flags("u", "user")),
    elevated("gosu", flags("", "")),
    plain("env", flags("uCS", "unset chdir split-string"), 0),
    plain("cross-env", flags("", ""), 0),
    plain("nohup", flags("", ""), 0),
    plain("nice", flags("n", "adjustment"), 0),
    plain("ionice", flags("cnpPu", "class classdata"), 0),
    plain("time", flags("fo", "format output"), 0),
    plain("timeout", flags("ks", "kill-after signal"), 1),
    plain("gtimeout", flags("ks", "kill-after signal"), 1),
    plain("stdbuf", flags("ioe", "input output error"), 0),
    plain("setsid", flags("", ""), 0),
    plain("chrt", flags("TPD", ""), 1),
    plain("taskset", flags("", ""), 1),
    plain("watch", flags("nq", "interval"), 0),
    plain("command", flags("", ""), 0),
    plain("builtin", flags("", ""), 0),
    plain("exec", flags("a", ""), 0),
    plain("coproc", flags("", ""), 0),
    plain("unbuffer", flags("", ""), 0),
    plain("caffeinate", flags("tw", ""), 0),
    plain("screen", flags("SctTeph", ""), 0),
    plain("fakeroot", flags("", ""), 0),
    plain("xvfb-run", flags("ens", ""), 0),
    plain("aws-vault exec", flags("d", "duration"), 1),
    plain("heroku run", flags("a", "app"), 0),
    plain("doppler run", flags("pc", "project config"), 0),
    plain("strace", flags("eopsuaIOPSUX", ""), 0),
    plain(
        "flock",
        flags("wEc", "timeout conflict-exit-code command"),
        1,
    ),
    plain(
        "systemd-run",
        flags("pEMu", "property unit setenv uid gid slice"),
        0,
    ),
    plain("unshare", flags("SGRw", "setuid setgid root wd"), 0),
    plain("nsenter", flags("tSG", "target setuid setgid"), 0),
    plain("chroot", flags("", "userspec groups"), 1),
    plain("busybox", flags("", ""), 0),
    plain("toybox", flags("", ""), 0),
    plain("proxychains4", flags("f", ""), 0),
    plain("torsocks", flags("", ""), 0),
    plain("npx", flags("pc", "package call"), 0),
    plain("bunx", flags("p", "package"), 0),
    plain("pnpx", flags("", "package"), 0),
    plain("uvx", flags("", "from with python"), 0),
    plain("pipx run", flags("", "spec"), 0),
    plain("yarn exec", flags("", ""), 0),
    plain("npm exec", flags("pcw", "package call"), 0),
    plain("npm x", flags("pcw", "package call"), 0),
    plain("bun x", flags("p", "package"), 0),
    plain("pnpm dlx", flags("", "package"), 0),
    plain("pnpm exec", flags("", ""), 0),
    plain("yarn dlx", flags("p", "package"), 0),
    plain(
        "uv run",
        flags("p", "with python extra group project directory env-file"),
        0,
    ),
    plain("poetry run", flags("", ""), 0),
    plain("pipenv run", flags("", ""), 0),
    plain("bundle exec", flags("", ""), 0),
    plain("conda run", flags("np", "name prefix"), 0),
    plain("direnv exec", flags("", ""), 1),
    plain("mise exec", flags("", ""), 0),
    plain("op run", flags("", "env-file"), 0),
];

/// The wrapper that `program` with its arguments is, and where the arguments after its name begin.
pub(super) fn find(program: &str, args: &[Value]) -> Option<(&'static Wrapper, usize)> {
    let second = args.first().map(|arg| arg.text.as_str());
    let first = program.as_bytes().first()?;
    let begin = |wrapper: &&Wrapper| wrapper.name.as_bytes()[0] == *first;
    WRAPPERS
        .iter()
        .filter(begin)
        .find_map(|wrapper| match wrapper.name.strip_prefix(program)? {
            "" => Some((wrapper, 0)),
            rest => (rest.strip_prefix(' ') == second && second.is_some()).then_some((wrapper, 1)),
        })
}

impl Wrapper {
    /// Where the command begins in the arguments.
    pub(super) fn command(&self, args: &[Value]) -> usize {
        let mut at = self.flags.skip(args);
        let mut operands = self.operands;
        while operands > 0 && at < args.len() {
            operands -= 1;
            at += 1;
        }
        if self.operands > 0 {
            at += self.flags.skip(args.get(at..).unwrap_or_default());
        }
        at.min(args.len())
    }
}

impl Flags {
    /// How many words are flags and their values, from the first on.
    pub(super) fn skip(&self, args: &[Value]) -> usize {
        let mut at = 0;
        while let Some(arg) = args.get(at) {
            match arg.text.as_str() {
                "--" => return at + 1,
                text if !is_flag(text) => break,
                text => at += 1 + usize::from(self.takes_next(text)),
            }
        }
        at.min(args.len())
    }

    /// The value of this flag is the next word.
    pub(super) fn takes_next(&self, flag: &str) -> bool {
        if let Some(name) = flag.strip_prefix("--") {
            return one_of(name, self.long);
        }
        let letters = flag.trim_start_matches('-');
        let first = letters.find(|c| self.short.contains(c));
        first.is_some_and(|at| letters[at..].chars().nth(1).is_none())
    }

    /// The words that are neither flags nor their values.
    pub(super) fn operands<'a>(&self, args: &'a [Value]) -> Vec<&'a Value> {
        let mut found = Vec::with_capacity(args.len());
        let mut at = 0;
        while let Some(arg) = args.get(at) {
            at += 1;
            if arg.text == "--" {
                found.extend(&args[at..]);
                break;
            }
            if is_flag(&arg.text) {
                at += usize::from(self.takes_next(&arg.text));
            } else {
                found.push(arg);
            }
        }
        found
    }
}

/// `name` is among the names, which are separated by blanks.
pub(in crate::guard) fn one_of(name: &str, names: &str) -> bool {
    let is_blank = |byte: Option<&u8>| byte.is_none_or(|byte| *byte == b' ');
    let (text, names) = (name.as_bytes(), names.as_bytes());
    let Some(first) = text.first() else {
        return false;
    };
    memchr::memchr_iter(*first, names).any(|at| {
        names[at..].starts_with(text)
            && !text.contains(&b' ')
            && is_blank(names.get(at + text.len()))
            && is_blank(at.checked_sub(1).and_then(|before| names.get(before)))
    })
}

pub(super) fn is_flag(text: &str) -> bool {
    text.len() > 1 && text.starts_with('-')
}

/// A flag is given: `-r`, `-rf`, `--recursive`, `--recursive=…`.
pub(super) fn has(args: &[Value], short: &str, long: &str) -> bool {
    args.iter()
        .take_while(|arg| arg.text != "--")
        .any(|arg| match arg.text.strip_prefix("--") {
            Some(name) => one_of(name.split('=').next().unwrap_or(name), long),
            None => is_flag(&arg.text) && arg.text[1..].contains(|c| short.contains(c)),
        })
}

/// The value of a flag: `-o f`, `-of`, `--output f`, `--output=f`.
pub(super) fn value<'a>(args: &'a [Value], short: Option<char>, long: &str) -> Option<Value> {
    let mut args = args.iter();
    let part = |arg: &'a Value, text: &str| arg.with(text);
    while let Some(arg) = args.next() {
        if let Some(name) = arg.text.strip_prefix("--") {
            if name.is_empty() {
                return None;
            }
            match name.split_once('=') {
                Some((name, value)) if one_of(name, long) => return Some(part(arg, value)),
                None if one_of(name, long) => return args.next().cloned(),
                _ => {}
            }
        } else if is_flag(&arg.text)
            && !arg.text.starts_with("-X")
            && let Some(short) = short
            && let Some(at) = arg.text.find(short)
        {
            let rest = &arg.text[at + short.len_utf8()..];
            return if rest.is_empty() {
                args.next().cloned()
            } else {
                Some(part(arg, rest))
            };
        }
    }
    None
}
