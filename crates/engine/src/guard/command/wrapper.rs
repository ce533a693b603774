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

/// Which flags take a value in the next word.
#[derive(Debug, Clone, Copy)]
pub(super) struct Flags {
    pub(super) short: &'static str,
    pub(super) long: &'static [&'static str],
}

const fn wrapper(
    name: &'static str,
    short: &'static str,
    long: &'static [&'static str],
    operands: usize,
) -> Wrapper {
    Wrapper {
        name,
        flags: Flags { short, long },
        operands,
        elevated: false,
    }
}

const fn elevated(
    name: &'static str,
    short: &'static str,
    long: &'static [&'static str],
) -> Wrapper {
    Wrapper {
        name,
        flags: Flags { short, long },
        operands: 0,
        elevated: true,
    }
}

static WRAPPERS: &[Wrapper] = &[
    elevated(
        "sudo",
        "ugpCDhrtTUR",
        &[
            "--user", "--group", "--prompt", "--chdir", "--host", "--role", "--chroot",
        ],
    ),
    elevated("doas", "uC", &[]),
    elevated("pkexec", "", &["--user"]),
    elevated("run0", "u", &["--user"]),
    elevated("gosu", "", &[]),
    wrapper("env", "uCS", &["--unset", "--chdir", "--split-string"], 0),
    wrapper("nohup", "", &[], 0),
    wrapper("nice", "n", &["--adjustment"], 0),
    wrapper("ionice", "cnpPu", &["--class", "--classdata"], 0),
    wrapper("time", "fo", &["--format", "--output"], 0),
    wrapper("timeout", "ks", &["--kill-after", "--signal"], 1),
    wrapper("gtimeout", "ks", &["--kill-after", "--signal"], 1),
    wrapper("stdbuf", "ioe", &["--input", "--output", "--error"], 0),
    wrapper("setsid", "", &[], 0),
    wrapper("chrt", "TPD", &[], 1),
    wrapper("taskset", "", &[], 1),
    wrapper("watch", "nq", &["--interval"], 0),
    wrapper("command", "", &[], 0),
    wrapper("builtin", "", &[], 0),
    wrapper("exec", "a", &[], 0),
    wrapper("coproc", "", &[], 0),
    wrapper("unbuffer", "", &[], 0),
    wrapper("caffeinate", "tw", &[], 0),
    wrapper("strace", "eopsuaIOPSUX", &[], 0),
    wrapper("ltrace", "eopsuan", &[], 0),
    wrapper("flock", "wEc", &["--timeout", "--conflict-exit-code"], 1),
    wrapper(
        "systemd-run",
        "pEMu",
        &[
            "--property",
            "--unit",
            "--setenv",
            "--uid",
            "--gid",
            "--slice",
        ],
        0,
    ),
    wrapper("busybox", "", &[], 0),
    wrapper("toybox", "", &[], 0),
    wrapper("proxychains", "f", &[], 0),
    wrapper("proxychains4", "f", &[], 0),
    wrapper("torsocks", "", &[], 0),
    wrapper("xvfb-run", "nsef", &[], 0),
    wrapper("chronic", "", &[], 0),
    wrapper("npx", "pc", &["--package", "--call"], 0),
    wrapper("bunx", "p", &["--package"], 0),
    wrapper("npm exec", "pcw", &["--package", "--call"], 0),
    wrapper("pnpm dlx", "", &["--package"], 0),
    wrapper("pnpm exec", "", &[], 0),
    wrapper("yarn dlx", "p", &["--package"], 0),
    wrapper("yarn exec", "", &[], 0),
    wrapper(
        "uv run",
        "p",
        &[
            "--with",
            "--python",
            "--extra",
            "--group",
            "--project",
            "--directory",
            "--env-file",
        ],
        0,
    ),
    wrapper("poetry run", "", &[], 0),
    wrapper("pipenv run", "", &[], 0),
    wrapper("pdm run", "", &[], 0),
    wrapper("hatch run", "", &[], 0),
    wrapper("bundle exec", "", &[], 0),
    wrapper("conda run", "np", &["--name", "--prefix"], 0),
    wrapper("direnv exec", "", &[], 1),
    wrapper("mise exec", "", &[], 0),
    wrapper("op run", "", &["--env-file"], 0),
    wrapper("doppler run", "pc", &["--project", "--config"], 0),
];

/// The wrapper that `program` with its arguments is, and where the arguments after its name begin.
pub(super) fn find(program: &str, args: &[Value]) -> Option<(&'static Wrapper, usize)> {
    let second = args.first().map(|arg| arg.text.as_str());
    WRAPPERS
        .iter()
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
        if flag.starts_with("--") {
            return self.long.contains(&flag);
        }
        let letters = flag.trim_start_matches('-');
        letters
            .char_indices()
            .any(|(at, c)| at + c.len_utf8() == letters.len() && self.short.contains(c))
            && !letters
                .chars()
                .rev()
                .skip(1)
                .any(|c| self.short.contains(c))
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

pub(super) fn is_flag(text: &str) -> bool {
    text.len() > 1 && text.starts_with('-')
}

/// A flag is given: `-r`, `-rf`, `--recursive`, `--recursive=…`.
pub(super) fn has(args: &[Value], short: &str, long: &[&str]) -> bool {
    args.iter()
        .take_while(|arg| arg.text != "--")
        .any(|arg| match arg.text.strip_prefix("--") {
            Some(name) => long.contains(&name.split('=').next().unwrap_or(name)),
            None => is_flag(&arg.text) && arg.text[1..].contains(|c| short.contains(c)),
        })
}

/// The value of a flag: `-o f`, `-of`, `--output f`, `--output=f`.
pub(super) fn value<'a>(args: &'a [Value], short: Option<char>, long: &[&str]) -> Option<Value> {
    let mut args = args.iter();
    let part = |arg: &'a Value, text: &str| Value {
        text: text.to_owned(),
        ..arg.clone()
    };
    while let Some(arg) = args.next() {
        if let Some(name) = arg.text.strip_prefix("--") {
            if name.is_empty() {
                return None;
            }
            match name.split_once('=') {
                Some((name, value)) if long.contains(&name) => return Some(part(arg, value)),
                None if long.contains(&name) => return args.next().cloned(),
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
