//! Which paths a program touches: a table of how it takes its operands.

use std::collections::HashMap;
use std::sync::LazyLock;

use super::super::act::Access::{self, Delete, List, Read, Write};
use super::super::zone::Zone;
use super::shell::Shell;
use super::word::Value;
use super::wrapper::{Flags, flags, has, is_flag, value};

/// How a program takes its arguments.
#[derive(Clone, Copy)]
struct Row {
    /// Names, separated by blanks.
    names: &'static str,
    flags: Flags,
    access: Option<Access>,
    /// Operands that are no paths, before the others: the pattern of `grep`, the mode of `chmod`.
    skip: usize,
    /// Flags that give what is skipped otherwise: `grep -e`.
    unless: Flags,
    /// The last operand, where it differs.
    last: Option<Access>,
    /// Flags that add what is below; `*` if none is needed.
    recursive: Flags,
}

const NONE: Flags = flags("", "");
const R: Flags = flags("rR", "recursive");
const A: Flags = flags("raR", "recursive archive");
const ALWAYS: Flags = flags("*", "");

const fn row(names: &'static str, flags: Flags, access: Access) -> Row {
    let access = Some(access);
    Row {
        names,
        flags,
        access,
        skip: 0,
        unless: NONE,
        last: None,
        recursive: NONE,
    }
}

impl Row {
    const fn last(self, last: Access) -> Row {
        Row {
            last: Some(last),
            ..self
        }
    }

    const fn skip(self, unless: Flags) -> Row {
        Row {
            skip: 1,
            unless,
            ..self
        }
    }

    const fn below(self, recursive: Flags) -> Row {
        Row { recursive, ..self }
    }

    const fn no_paths(names: &'static str) -> Row {
        Row {
            access: None,
            ..row(names, NONE, Read)
        }
    }
}

static ROWS: &[Row] = &[
    row("rm grm", NONE, Delete).below(R),
    row("rmdir unlink trash trash-put", NONE, Delete),
    row("shred wipe srm", flags("nsz", "iterations size"), Delete),
    row("rimraf del-cli", NONE, Delete).below(ALWAYS),
    row("cp gcp ditto", flags("tS", "suffix"), Read)
        .last(Write)
        .below(A),
    row("mv gmv rename", flags("tS", "suffix"), Delete).last(Write),
    row("ln link", flags("tS", "suffix"), Read).last(Write),
    row("install ginstall", flags("gmotS", "group mode owner"), Read).last(Write),
    row(
        "rsync",
        flags("eBTf", "exclude include filter rsh files-from"),
        Read,
    )
    .last(Write)
    .below(A),
    row("scp", flags("cFiJloPSDX", ""), Read)
        .last(Write)
        .below(R),
    row(
        "touch mkfifo mkdir",
        flags("drtmZ", "date reference mode"),
        Write,
    ),
    row(
        "tee sponge truncate fallocate",
        flags("slor", "size reference length"),
        Write,
    ),
    row(
        "chmod chown chgrp setfacl chflags xattr",
        flags("", "reference"),
        Write,
    )
    .skip(NONE)
    .below(R),
    row("chattr", NONE, Write).below(R),
    row(
        "mkfs mke2fs mkswap wipefs fdisk sfdisk sgdisk parted blkdiscard",
        flags("tLNbmO", ""),
        Write,
    ),
    row(
        "vi vim nvim nano emacs pico ed ex code subl micro hx",
        flags("cSTu", ""),
        Write,
    ),
    row(
        "patch",
        flags("pidoBDFrVYzg", "strip input directory"),
        Write,
    ),
    row(
        "gzip gunzip bzip2 bunzip2 xz unxz zstd unzstd lz4",
        flags("SbT", ""),
        Write,
    ),
    row(
        "cat tac nl less more most bat batcat xxd hexdump hd strings base64 base32 gbase64 md5sum sha1sum \
         sha256sum sha512sum shasum b2sum md5 cksum wc uniq paste column fold fmt rev diff sdiff colordiff cmp \
         comm join zcat zless bzcat xzcat gzcat view pr expand iconv split pygmentize glow source . open \
         xdg-open cut",
        // The value of a flag (`fold -w 80`) passes for a path: it costs nothing.
        NONE,
        Read,
    ),
    row("head tail ghead gtail", flags("nc", "lines bytes"), Read),
    row("od", flags("AjNStw", ""), Read),
    row("perl ruby", flags("eEI", ""), Read),
    row(
        "sort gsort",
        flags("ktSTo", "key field-separator output"),
        Read,
    ),
    row("jq yq gojq", flags("", "indent arg argjson"), Read).skip(flags("f", "from-file")),
    row(
        "awk gawk mawk nawk",
        flags("vFf", "assign field-separator"),
        Read,
    )
    .skip(flags("f", "file")),
    row("sed gsed", flags("efl", "expression file"), Read).skip(flags("ef", "expression file")),
    row(
        "grep egrep fgrep zgrep ggrep",
        flags(
            "efmABCdD",
            "regexp file max-count context include exclude exclude-dir",
        ),
        Read,
    )
    .skip(flags("ef", "regexp file"))
    .below(R),
    row(
        "rg ag ack ugrep",
        flags(
            "efgtTmABCjMd",
            "regexp file glob iglob type type-not max-count context max-depth",
        ),
        Read,
    )
    .skip(flags("ef", "regexp file files"))
    .below(ALWAYS),
    row(
        "fd fdfind",
        flags("etEdxXSc", "extension type exclude max-depth exec"),
        List,
    )
    .skip(NONE)
    .below(ALWAYS),
    row(
        "ls gls dir vdir exa eza lsd",
        flags("IwT", "ignore width"),
        List,
    )
    .below(flags("R", "recursive")),
    row("tree du ncdu", flags("LIPoHd", "max-depth exclude"), List).below(ALWAYS),
    row(
        "stat file readlink realpath lsattr getfacl",
        flags("cftF", "format printf"),
        List,
    ),
    Row::no_paths(
        "echo printf true false : test [ alias unalias export declare local set unset shift exit return read \
         wait kill pkill killall sleep date which type whereis man help expr seq basename dirname tr ping dig \
         nslookup host ssh-add ssh-agent ssh-copy-id ssh cd pushd popd eval trap ps top pgrep printenv hostname \
         uname whoami id tmux screen gh jobs fg bg ulimit umask history yes crontab systemctl service journalctl \
         brew apt apt-get dnf yum pacman snap pip pip3 npm yarn pnpm make cmake cargo go rustup docker \
         docker-compose podman nerdctl kubectl oc helm nc ncat netcat telnet claude",
    ),
];

/// Flags of becket whose value is the next word.
pub(super) const BECKET_FLAGS: Flags = flags(
    "",
    "home set frame-times write svg man config event project cwd order title keywords skill task mode effort session",
);

/// Files that verbs of becket read and write: the verb, the flag that names the file, or none where the
/// first operand does.
static BECKET_FILES: &[(&str, Option<&str>, Access)] = &[
    ("", Some("frame-times"), Write),
    ("init", Some("write"), Write),
    ("up", Some("write"), Write),
    ("demo", Some("svg"), Write),
    ("completions", Some("man"), Write),
    ("task new", None, Write),
    ("effort task new", None, Write),
    ("effort plan", None, Read),
    ("effort debrief", None, Read),
    ("effort dehydrate", None, Read),
    ("run", Some("order"), Read),
    ("guard test", Some("event"), Read),
    ("guard backtest", Some("config"), Read),
    ("try", Some("event"), Read),
];

static BY_NAME: LazyLock<HashMap<&str, &Row>> = LazyLock::new(|| {
    ROWS.iter()
        .flat_map(|row| row.names.split(' ').map(move |name| (name, row)))
        .collect()
});

/// Flags whose value is a path, by program.
static VALUES: &[(&str, Option<char>, &str, Access)] = &[
    ("cp", Some('t'), "target-directory", Write),
    ("mv", Some('t'), "target-directory", Write),
    ("sort", Some('o'), "output", Write),
    ("curl", Some('o'), "output", Write),
    ("curl", Some('D'), "dump-header", Write),
    ("curl", Some('T'), "upload-file", Read),
    ("curl", Some('K'), "config", Read),
    ("wget", Some('O'), "output-document", Write),
    ("wget", Some('P'), "directory-prefix", Write),
    ("aria2c", Some('o'), "out", Write),
    ("wget", None, "post-file body-file", Read),
    ("grep", Some('f'), "file include", Read),
    ("rg", Some('g'), "glob iglob", Read),
    ("awk", Some('f'), "file", Read),
    ("sed", Some('f'), "file", Read),
    ("patch", Some('i'), "input", Read),
    ("xargs", Some('a'), "arg-file", Read),
];

impl Shell<'_> {
    /// Adds the touches of one act.
    pub(super) fn touches(&mut self, program: &str, args: &[Value], act: usize) {
        for (_, short, long, access) in VALUES.iter().filter(|(name, ..)| *name == program) {
            if let Some(path) = value(args, *short, long)
                .filter(|path| !path.text.starts_with('!') && path.text != "-")
            {
                self.touch(&path, *access, false, Some(act));
            }
        }
        let name = if program.starts_with("mkfs") {
            "mkfs"
        } else {
            program
        };
        match name {
            "dd" => self.dd(args, act),
            "tar" | "gtar" | "bsdtar" => self.tar(args, act),
            "zip" | "7z" | "7za" | "rar" | "unzip" | "ar" => self.archive(program, args, act),
            "curl" | "wget" | "http" | "https" | "xh" => self.request(args, act),
            "openssl" | "gpg" | "gpg2" | "age" => self.crypt(args, act),
            "git" => self.git_touches(args, act),
            "becket" => self.becket(args, act),
            _ => match BY_NAME.get(name) {
                Some(row) => self.row(row, program, args, act),
                None => self.unlisted(args, act),
            },
        }
    }

    fn row(&mut self, row: &Row, program: &str, args: &[Value], act: usize) {
        let Some(mut access) = row.access else { return };
        if matches!(program, "sed" | "gsed" | "perl" | "ruby") && has(args, "i", "in-place") {
            access = Write;
        }
        let given = |wanted: Flags| has(args, wanted.short, wanted.long);
        let recursive = row.recursive.short == "*" || given(row.recursive);
        let operands = row.flags.operands(args);
        let skip = if given(row.unless) { 0 } else { row.skip };
        let paths = operands.get(skip..).unwrap_or_default();
        if paths.is_empty() && recursive && access == Read || paths.is_empty() && access == List {
            self.touch(&Value::known("."), access, recursive, Some(act));
        }
        let target = matches!(program, "cp" | "mv" | "ln" | "install")
            && value(args, Some('t'), "target-directory").is_some();
        // What is moved to the temp folder is as good as deleted.
        let here = self.scope.cwd.as_deref().unwrap_or(self.home);
        let is_temp = |to: &&Value| {
            let to = self.absolute(to);
            to.is_some_and(|to| Zone::of(&format!("{to}/x"), here, self.home) == Zone::Temp)
        };
        let lost = program == "mv" && paths.last().is_some_and(is_temp);
        let folders = program == "install" && has(args, "d", "directory");
        for (at, path) in paths.iter().enumerate() {
            let remote = matches!(program, "scp" | "rsync") && remote(&path.text);
            let last = row
                .last
                .filter(|_| at + 1 == paths.len() && at > 0 && !target);
            if !remote && path.text != "-" {
                let access = if folders {
                    Write
                } else {
                    last.unwrap_or(access)
                };
                let name = path.text.rsplit('/').find(|name| !name.is_empty());
                let is_folder = name.is_some_and(|it| !it.trim_start_matches('.').contains('.'));
                let recursive = recursive || lost && access == Delete && is_folder;
                // `cp a b/` writes `b/a`.
                let into = path.text.ends_with('/') && last == Some(Write) && !recursive;
                for from in paths[..at].iter().filter(|_| into) {
                    let name = from.text.rsplit('/').next().unwrap_or_default();
                    let file = path.with(path.text.clone() + name);
                    self.touch(&file, access, false, Some(act));
                }
                self.touch(path, access, recursive, Some(act));
                if last.is_some()
                    && program == "rsync"
                    && args.iter().any(|arg| arg.text.starts_with("--delete"))
                    && !has(args, "n", "dry-run")
                {
                    self.touch(path, Delete, true, Some(act));
                }
            }
        }
    }

    /// A program that is not in the table reads what looks like a path.
    fn unlisted(&mut self, args: &[Value], act: usize) {
        let mut after_flag = false;
        for arg in args {
            let text = arg.text.as_str();
            if is_flag(text) {
                after_flag = text.starts_with("--") && !text.contains('=');
                continue;
            }
            let looks = text.contains('/')
                || text.starts_with(['.', '~'])
                || arg.opaque && text.starts_with('$');
            if looks
                && !after_flag
                && !remote(text)
                && text.len() < 4096
                && !text.contains(['\n', ' '])
            {
                self.touch(arg, Read, false, Some(act));
            }
            after_flag = false;
        }
    }

    fn dd(&mut self, args: &[Value], act: usize) {
        for arg in args {
            let (access, path) = match arg.text.split_once('=') {
                Some(("if", path)) => (Read, path),
                Some(("of", path)) => (Write, path),
                _ => continue,
            };
            self.touch(&arg.with(path), access, false, Some(act));
        }
    }

    fn tar(&mut self, args: &[Value], act: usize) {
        const FLAGS: Flags = flags("fCTXIbHVgN", "file directory exclude-from files-from");
        // `tar czf x` has its flags without a dash.
        let bundle = args
            .first()
            .filter(|first| !first.text.starts_with('-') && !first.text.contains(['/', '.']));
        let (mut file, rest) = match bundle {
            Some(bundle) if bundle.text.contains('f') => {
                (args.get(1).cloned(), args.get(2..).unwrap_or_default())
            }
            Some(_) => (None, &args[1..]),
            None => (None, args),
        };
        let mode = |letters: &str, long: &str| {
            bundle.is_some_and(|bundle| bundle.text.contains(|c| letters.contains(c)))
                || has(args, letters, long)
        };
        let extract = mode("x", "extract get");
        let create = !extract && mode("cru", "create append update");
        file = file.or_else(|| value(rest, Some('f'), "file"));
        if let Some(file) = file.filter(|file| file.text != "-" && !remote(&file.text)) {
            self.touch(&file, if create { Write } else { Read }, false, Some(act));
        }
        if extract {
            let folder = value(rest, Some('C'), "directory").unwrap_or(Value::known("."));
            self.touch(&folder, Write, true, Some(act));
        } else if create {
            let gone = has(args, "", "remove-files");
            let folder = value(rest, Some('C'), "directory");
            for path in FLAGS.operands(rest) {
                let below = folder.as_ref().filter(|_| !path.text.starts_with('/'));
                let path = &below.map_or_else(
                    || path.clone(),
                    |folder| path.with(format!("{}/{}", folder.text, path.text)),
                );
                self.touch(path, if gone { Delete } else { Read }, true, Some(act));
            }
        }
    }

    fn archive(&mut self, program: &str, args: &[Value], act: usize) {
        const FLAGS: Flags = flags("dxiPnbt", "exclude");
        let operands = FLAGS.operands(args);
        let adds = program == "zip"
            || operands
                .first()
                .is_some_and(|verb| verb.text == "a" || verb.text == "r");
        let paths = if program == "zip" || program == "unzip" {
            &operands[..]
        } else {
            operands.get(1..).unwrap_or_default()
        };
        for (at, path) in paths.iter().enumerate() {
            let access = if at == 0 && adds { Write } else { Read };
            self.touch(path, access, at > 0, Some(act));
        }
        if program == "unzip" {
            let folder = value(args, Some('d'), "").unwrap_or(Value::known("."));
            self.touch(&folder, Write, true, Some(act));
        }
    }

    /// Files that a request sends: `-d @f`, `-F x=@f`, `file://…`.
    fn request(&mut self, args: &[Value], act: usize) {
        for (at, arg) in args.iter().enumerate() {
            let text = arg.text.as_str();
            let named = at > 0 && args[at - 1].text == "--data-urlencode";
            let file = match text.strip_prefix("file://") {
                Some(file) => Some(file),
                None if text.contains("=<") => text.split_once("=<").map(|(_, file)| file),
                None => text.split_once('@').and_then(|(before, file)| {
                    let sent = before.is_empty()
                        || named
                        || before.ends_with('=')
                        || before.starts_with('-');
                    (sent && !file.contains('@')).then(|| file.split(';').next().unwrap_or(file))
                }),
            };
            if let Some(file) = file.filter(|file| *file != "-") {
                // `@~/x` is meant, though the shell does not expand it.
                let file = match file.strip_prefix("~/") {
                    Some(rest) => format!("{}/{rest}", self.home.display()),
                    None => file.to_owned(),
                };
                self.touch(&arg.with(file), Read, false, Some(act));
            }
        }
    }

    fn crypt(&mut self, args: &[Value], act: usize) {
        let mut out = false;
        for (at, arg) in args.iter().enumerate() {
            let before = at.checked_sub(1).map_or("", |at| args[at].text.as_str());
            match before {
                "-out" | "-o" | "--output" | "-keyout" => self.touch(arg, Write, false, Some(act)),
                "-in" | "-inkey" => self.touch(arg, Read, false, Some(act)),
                _ if !is_flag(&arg.text)
                    && !before.starts_with('-')
                    && arg.text.contains(['/', '.'])
                    && !out =>
                {
                    self.touch(arg, Read, false, Some(act));
                }
                _ => {}
            }
            out = arg.text == "-out";
        }
    }

    fn becket(&mut self, args: &[Value], act: usize) {
        let operands = BECKET_FLAGS.operands(args);
        for (verb, flag, access) in BECKET_FILES {
            let words = verb.split_whitespace().count();
            let begins = verb.split_whitespace().zip(&operands);
            if operands.len() < words || !begins.into_iter().all(|(word, it)| word == it.text) {
                continue;
            }
            let file = match flag {
                Some(flag) => value(args, None, flag),
                None => operands.get(words).map(|file| (*file).clone()),
            };
            if let Some(file) = file.filter(|file| file.text != "-") {
                self.touch(&file, *access, false, Some(act));
            }
        }
    }

    fn git_touches(&mut self, args: &[Value], act: usize) {
        const FLAGS: Flags = flags("msb", "source message");
        let Some((verb, rest)) = args.split_first() else {
            return;
        };
        let (access, recursive) = match verb.text.as_str() {
            "rm" if !has(rest, "n", "cached dry-run") => (Delete, has(rest, "r", "")),
            "mv" => (Write, false),
            "restore" => (Write, true),
            "checkout" => (Write, true),
            _ => return,
        };
        let dashes = rest.iter().position(|arg| arg.text == "--");
        let (before, files) = rest.split_at(dashes.unwrap_or(0));
        let is_checkout = verb.text == "checkout";
        // A file of another branch is brought in; one of this commit throws changes away.
        let other = |arg: &Value| {
            !is_flag(&arg.text) && !arg.text.starts_with("HEAD") && !arg.text.starts_with('@')
        };
        let brings = is_checkout && before.iter().any(other);
        let operands = FLAGS.operands(files);
        let from = operands
            .first()
            .filter(|it| dashes.is_none() && !is_file(&it.text));
        let brings = brings || operands.len() > 1 && from.is_some_and(|it| other(it));
        for path in operands {
            let whole = matches!(path.text.as_str(), "." | ":/") || path.text.starts_with("./");
            let named = dashes.is_some() || is_file(&path.text);
            if is_checkout && !whole && (!named || brings) {
                continue;
            }
            self.touch(path, access, recursive, Some(act));
        }
    }
}

/// `src/` or `app.ts`, not a branch or a tag: `feature/x`, `v1.x`.
fn is_file(text: &str) -> bool {
    let name = text.rsplit('/').next().unwrap_or_default();
    let ending = name.rsplit_once('.').map_or("", |(_, ending)| ending);
    let lower = ending.bytes().all(|c| c.is_ascii_lowercase());
    name.is_empty() || (2..5).contains(&ending.len()) && lower
}

/// `host:path`
fn remote(text: &str) -> bool {
    text.split_once(':')
        .is_some_and(|(host, _)| !host.contains('/') && !host.is_empty() && !host.starts_with('.'))
}
