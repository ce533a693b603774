//! Programs that start others for names from their input, on another machine, or by a setting: xargs, find, ssh,
//! docker, git.

use std::path::PathBuf;

use super::super::act::Access;
use super::shell::{Output, Shell};
use super::start::line;
use super::word::{Value, size};
use super::wrapper::{self, Flags, flags, has, is_flag, one_of};

const SSH: Flags = flags("bcDEeFIiJLlmOopQRSWw", "");
const DOCKER: Flags = flags(
    "euvwphlmc",
    "env user volume workdir publish name network net entrypoint mount env-file hostname label memory cpus \
     platform add-host gpus cap-add cap-drop security-opt device tmpfs ulimit restart pid ipc shm-size dns \
     index link log-driver runtime userns volumes-from",
);
const KUBECTL: Flags = flags("ncf", "namespace container context kubeconfig cluster");
const COMPOSE: Flags = flags(
    "fpeuwv",
    "file project-name env-file profile env user workdir index",
);
const XARGS: Flags = flags(
    "IdEnPLsa",
    "replace delimiter max-args max-procs max-lines max-chars arg-file",
);
/// Of `git ls-files`: what names every file, or every new one.
const ALL_FILES: &str = "-z -c --cached -o --others --exclude-standard";
/// Of `find`: what chooses no files, and has no value.
const NO_TEST: &str = "-print -print0 -depth -xdev -mount -ls -prune -o -a ! -not ( ) -follow -noleaf -ignore_readdir_race -d";
const FD: Flags = flags(
    "teEdcjSo",
    "type extension exclude max-depth min-depth threads size owner",
);
const PARALLEL: Flags = flags("jSnNPa", "jobs delay timeout colsep joblog");

impl Shell<'_> {
    /// The names that a program gets from its input, one word each.
    fn names(stdin: &Output) -> Vec<Value> {
        match stdin {
            Output::Text(text, opaque) => text
                .split_whitespace()
                .map(|name| Value {
                    opaque: *opaque,
                    ..Value::known(name)
                })
                .collect(),
            Output::Names(names) => names.clone(),
            stdin => vec![Value {
                network: *stdin == Output::Network,
                ..Value::unknown(UNKNOWN_NAME)
            }],
        }
    }

    pub(super) fn xargs(&mut self, args: &[Value], stdin: &Output) -> Output {
        let at = XARGS.skip(args);
        let (flags, inner) = args.split_at(at);
        if inner.is_empty() {
            self.act("xargs", args, stdin.fed());
            return Output::Opaque;
        }
        let mark = match wrapper::value(flags, Some('I'), "replace") {
            Some(mark) => mark.text,
            None if has(flags, "i", "") => "{}".to_owned(),
            None => String::new(),
        };
        let words = match stdin {
            _ if mark.is_empty() => {
                let names = Self::names(stdin);
                inner.iter().cloned().chain(names).collect()
            }
            // A line is one name.
            Output::Text(text, opaque) => {
                let line = |line| Value {
                    opaque: *opaque,
                    ..Value::known(line)
                };
                self.replaced(inner, &mark, &text.lines().map(line).collect::<Vec<_>>())
            }
            _ => self.replaced(inner, &mark, &Self::names(stdin)),
        };
        self.take_room(size(&words));
        self.within("xargs", |shell| shell.start(&words, &Output::Nothing))
    }

    pub(super) fn parallel(&mut self, args: &[Value], stdin: &Output) -> Output {
        let args = &args[PARALLEL.skip(args)..];
        let at = args
            .iter()
            .position(|arg| arg.text.starts_with(":::"))
            .unwrap_or(args.len());
        let (inner, given) = args.split_at(at);
        let names = if given.is_empty() {
            Self::names(stdin)
        } else {
            given[1..].to_vec()
        };
        let words = match inner.iter().any(|word| word.text.contains("{}")) {
            true => self.replaced(inner, "{}", &names),
            false => inner.iter().cloned().chain(names).collect(),
        };
        let line = line(&words);
        self.within("parallel", |shell| shell.script(&line, &Output::Nothing))
    }

    pub(super) fn find(&mut self, args: &[Value], stdin: &Output) -> Output {
        let act = self.push_act("find", args, stdin.fed());
        let options = args
            .iter()
            .take_while(|arg| matches!(arg.text.as_str(), "-H" | "-L" | "-P"))
            .count();
        let args = &args[options..];
        let ends =
            |arg: &&Value| !arg.text.starts_with('-') && !matches!(arg.text.as_str(), "(" | "!");
        let mut roots: Vec<Value> = args.iter().take_while(ends).cloned().collect();
        let tests = &args[roots.len()..];
        if roots.is_empty() {
            roots.push(Value::known("."));
        }
        for root in &roots {
            self.touch(root, Access::List, true, Some(act));
        }
        // What `{}` stands for, as far as the tests before it tell.
        let mut names: Vec<&str> = Vec::new();
        let mut filtered = false;
        let mut empty = false;
        let mut at = 0;
        let mut output = Output::Nothing;
        while let Some(test) = tests.get(at) {
            at += 1;
            let value = tests.get(at);
            match test.text.as_str() {
                "-empty" => empty = true,
                "-delete" if empty => {}
                "-delete" => {
                    for found in self.found(&roots, &names, filtered) {
                        self.touch(&found, Access::Delete, !found.opaque, Some(act));
                    }
                }
                "-exec" | "-execdir" | "-ok" | "-okdir" => {
                    let end = tests[at..]
                        .iter()
                        .position(|word| word.text == ";" || word.text == "+");
                    let inner = &tests[at..end.map_or(tests.len(), |end| at + end)];
                    at += inner.len() + 1;
                    let found = self.found(&roots, &names, filtered);
                    let words = self.replaced(inner, "{}", &found);
                    output = self.within(&format!("find {}", test.text), |shell| {
                        shell.start(&words, &Output::Nothing)
                    });
                }
                "-fprint" | "-fls" | "-fprint0" | "-fprintf" => {
                    if let Some(file) = value {
                        self.touch(file, Access::Write, false, Some(act));
                    }
                    at += 1;
                }
                "-name" | "-iname" | "-path" | "-ipath" | "-wholename" => {
                    let pattern = value.map_or("*", |value| value.text.as_str());
                    if !pattern.chars().all(|c| matches!(c, '*' | '/' | '.')) {
                        filtered = true;
                        let negated =
                            at >= 2 && matches!(tests[at - 2].text.as_str(), "!" | "-not");
                        // The names from the last one on that is more than `*`.
                        let from = pattern.trim_end_matches(['*', '/']).rfind('/');
                        let name = &pattern[from.map_or(0, |at| at + 1)..];
                        names.extend(Some(name).filter(|_| !negated));
                    }
                    at += 1;
                }
                "-type" | "-maxdepth" | "-mindepth" | "-D" | "-printf" => at += 1,
                test if one_of(test, NO_TEST) => {}
                _ => {
                    filtered = true;
                    at +=
                        usize::from(value.is_some_and(|value| {
                            !value.text.starts_with('-') || value.text.len() < 5
                        }));
                }
            }
        }
        if output == Output::Nothing {
            Output::Names(self.found(&roots, &names, filtered))
        } else {
            output
        }
    }

    pub(super) fn fd(&mut self, program: &str, args: &[Value], stdin: &Output) -> Output {
        self.act(program, args, stdin.fed());
        let at = args
            .iter()
            .position(|arg| matches!(arg.text.as_str(), "-x" | "-X" | "--exec" | "--exec-batch"));
        if let Some(at) = at {
            let folders = FD.operands(&args[..at]).into_iter().skip(1);
            let ending = wrapper::value(&args[..at], Some('e'), "extension");
            let file = ending.map_or(String::new(), |ending| format!("/*.{}", ending.text));
            let below = |folder: &Value| format!("{}/**{file}", folder.text.trim_end_matches('/'));
            let mut names: Vec<Value> = folders.map(|it| Value::unknown(below(it))).collect();
            if names.is_empty() && !file.is_empty() {
                names.push(Value::unknown(format!("./**{file}")));
            } else if names.is_empty() {
                names.push(Value::unknown(UNKNOWN_NAME));
            }
            let mut words = self.replaced(&args[at + 1..], "{}", &names);
            if !args[at..].iter().any(|arg| arg.text.contains('{')) {
                words.extend(names);
            }
            self.within("fd -x", |shell| shell.start(&words, &Output::Nothing));
        }
        Output::Opaque
    }

    pub(super) fn ssh(&mut self, args: &[Value], stdin: &Output) -> Output {
        self.push_act("ssh", args, stdin.fed());
        let host = SSH.skip(args);
        let rest = args.get(host + 1..).unwrap_or_default();
        let rest = &rest[SSH.skip(rest)..];
        let line = line(rest);
        self.nested("ssh", false, true, |shell| {
            shell.subshell(|shell| {
                shell.scope.cwd = None;
                match (line.is_empty(), stdin) {
                    (false, _) => shell.script(&line, stdin),
                    (true, Output::Text(text, _)) => shell.script(text, &Output::Nothing),
                    _ => Output::Nothing,
                }
            })
        });
        Output::Network
    }

    /// `docker exec NAME cmd`, `docker run IMAGE cmd`, `kubectl exec NAME -- cmd`
    pub(super) fn container(&mut self, program: &str, args: &[Value], stdin: &Output) -> Output {
        self.act(program, args, stdin.fed());
        let kube = matches!(program, "kubectl" | "oc" | "lxc");
        let global = if kube { KUBECTL } else { COMPOSE };
        let mut rest = &args[global.skip(args)..];
        let mut flags = if kube { KUBECTL } else { DOCKER };
        if rest
            .first()
            .is_some_and(|word| matches!(word.text.as_str(), "compose" | "container"))
        {
            if rest[0].text == "compose" {
                flags = COMPOSE;
            }
            rest = &rest[1..];
            rest = &rest[flags.skip(rest)..];
        }
        let Some(verb) = rest.first().map(|word| word.text.as_str()) else {
            return Output::Opaque;
        };
        if !matches!(verb, "exec" | "run" | "debug") {
            return Output::Opaque;
        }
        rest = &rest[1..];
        let command = match rest.iter().position(|word| word.text == "--") {
            Some(at) if kube => &rest[at + 1..],
            _ => {
                let target = flags.skip(rest);
                rest.get(target + 1..).unwrap_or_default()
            }
        };
        let entry = wrapper::value(&rest[..rest.len() - command.len()], None, "entrypoint");
        let words: Vec<Value> = entry.into_iter().chain(command.iter().cloned()).collect();
        self.nested(&format!("{program} {verb}"), false, true, |shell| {
            shell.subshell(|shell| {
                shell.scope.cwd = None;
                shell.start(&words, stdin)
            })
        })
    }

    /// A makefile that the script gives or wrote: its recipes.
    pub(super) fn make(&mut self, program: &str, args: &[Value], stdin: &Output) -> Output {
        self.act(program, args, stdin.fed());
        let file = wrapper::value(args, Some('f'), "file makefile");
        // The grammar drops a `-` before a here-document.
        let makefile = match file {
            Some(file) if !matches!(&*file.text, "-" | "/dev/stdin") => self.printed_by_file(&file),
            None if !has(args, "f", "") => self.printed_by_file(&Value::known("Makefile")),
            _ => stdin.clone(),
        };
        if let Output::Text(text, _) = makefile {
            let recipes = text.lines().filter_map(|line| line.strip_prefix('\t'));
            let recipes: Vec<&str> = recipes
                .map(|it| it.trim_start_matches(['@', '-']))
                .collect();
            let script = recipes
                .join("\n")
                .replace("$(HOME)", "$HOME")
                .replace("$$", "$");
            self.within(program, |shell| {
                shell.subshell(|shell| shell.script(&script, &Output::Nothing))
            });
        }
        Output::Opaque
    }

    /// `cargo run -p NAME -- ARGS` starts NAME.
    pub(super) fn cargo_run(&mut self, args: &[Value], stdin: &Output) -> Output {
        self.act("cargo", args, stdin.fed());
        let end = args.iter().position(|arg| arg.text == "--");
        let (own, rest) = args.split_at(end.unwrap_or(args.len()));
        match wrapper::value(own, None, "bin").or(wrapper::value(own, Some('p'), "package")) {
            Some(name) => {
                let words = [&[name], rest.get(1..).unwrap_or_default()].concat();
                self.within("cargo run", |shell| shell.start(&words, stdin))
            }
            None => Output::Opaque,
        }
    }

    /// `becket run -- ARGS` starts `claude ARGS`; the first of them may name the program.
    pub(super) fn becket_run(&mut self, args: &[Value], stdin: &Output) -> Output {
        self.act("becket", args, stdin.fed());
        let end = args.iter().position(|arg| arg.text == "--");
        let words = &args[end.map_or(args.len(), |end| end + 1)..];
        let is_program = |word: &Value| word.text.rsplit('/').next() == Some("claude");
        let program = match words.first().is_some_and(is_program) {
            true => None,
            false => Some(Value::known("claude")),
        };
        let words: Vec<Value> = program.into_iter().chain(words.iter().cloned()).collect();
        self.within("becket run", |shell| shell.start(&words, stdin))
    }

    pub(super) fn git(&mut self, args: &[Value], stdin: &Output) -> Output {
        let scope = self.scope.cwd.clone();
        let mut at = 0;
        while let Some(flag) = args.get(at).filter(|arg| is_flag(&arg.text)) {
            let value = args.get(at + 1);
            match (flag.text.as_str(), value) {
                ("-C", Some(folder)) => {
                    self.scope.cwd = self
                        .absolute(folder)
                        .filter(|path| path.starts_with('/'))
                        .map(PathBuf::from);
                }
                ("-c" | "--config-env", Some(setting)) => {
                    self.git_alias(&setting.text);
                    if let Some(script) = git_program(&setting.text) {
                        self.within("git -c", |shell| shell.script(script, &Output::Nothing));
                    }
                }
                _ => {}
            }
            const TWO: &str = "-C -c --git-dir --work-tree --namespace --config-env --exec-path";
            let two = one_of(&flag.text, TWO);
            at += 1 + usize::from(two);
        }
        let rest = args.get(at..).unwrap_or_default();
        let output = self.git_command(rest, stdin);
        self.scope.cwd = scope;
        output
    }

    fn git_alias(&mut self, setting: &str) {
        if let Some((name, value)) = setting
            .strip_prefix("alias.")
            .and_then(|alias| alias.split_once('='))
        {
            self.aliases.insert(name.to_owned(), value.to_owned());
        }
    }

    fn git_command(&mut self, args: &[Value], stdin: &Output) -> Output {
        let verb = args.first().map_or("", |arg| arg.text.as_str());
        if let Some(alias) = self.aliases.remove(verb) {
            let rest = line(&args[1..]);
            let line = match alias.strip_prefix('!') {
                Some(script) => format!("{script} {rest}"),
                None => format!("git {alias} {rest}"),
            };
            let output = self.within("git alias", |shell| shell.script(&line, stdin));
            self.aliases.insert(verb.to_owned(), alias);
            return output;
        }
        self.act("git", args, stdin.fed());
        let script = match verb {
            "config" => {
                let mut words = args[1..]
                    .iter()
                    .filter(|arg| !is_flag(&arg.text) && arg.text != "set");
                words.next().zip(words.next()).and_then(|(key, value)| {
                    self.git_alias(&format!("{}={}", key.text, value.text));
                    value.text.strip_prefix('!').map(str::to_owned)
                })
            }
            "submodule" | "bisect" => {
                let at = args
                    .iter()
                    .position(|arg| matches!(arg.text.as_str(), "foreach" | "run"));
                at.map(|at| line(&args[at + 1..]).replace("--recursive ", ""))
            }
            "ls-files" if args[1..].iter().all(|arg| one_of(&arg.text, ALL_FILES)) => {
                return Output::Names(vec![Value::known(".")]);
            }
            "ls-files" if !args[1..].iter().any(|arg| is_flag(&arg.text)) => {
                let below = |it: &Value| Value::unknown(format!("./**/{}", it.text));
                return Output::Names(args[1..].iter().map(below).collect());
            }
            "rebase" => wrapper::value(args, Some('x'), "exec").map(|script| script.text),
            "filter-branch" => {
                wrapper::value(args, None, "tree-filter index-filter msg-filter env-filter")
                    .map(|script| script.text)
            }
            _ => None,
        };
        if let Some(script) = script {
            self.within(&format!("git {verb}"), |shell| {
                shell.subshell(|shell| shell.script(&script, stdin))
            });
        }
        Output::Opaque
    }
}

/// The program of a setting that makes git run one.
fn git_program(setting: &str) -> Option<&str> {
    let (key, program) = setting.split_once('=')?;
    let key = key.to_lowercase();
    let mut runs = "sshcommand pager editor fsmonitor .external .textconv".split(' ');
    let program = program.strip_prefix('!').unwrap_or(program);
    runs.any(|it| key.ends_with(it)).then_some(program)
}

/// The commands that a program takes as values of its flags.
pub(super) fn commands_in_flags(program: &str, args: &[Value]) -> Vec<Value> {
    match program {
        "script" => Vec::from_iter(wrapper::value(args, Some('c'), "command")),
        "ansible" => Vec::from_iter(wrapper::value(args, Some('a'), "args")),
        "nodemon" => Vec::from_iter(wrapper::value(args, Some('x'), "exec")),
        "nix-shell" => Vec::from_iter(wrapper::value(args, None, "run command")),
        "sed" | "gsed" => args
            .iter()
            .filter(|arg| !is_flag(&arg.text))
            .flat_map(executed)
            .collect(),
        "hyperfine" | "concurrently" | "entr" => {
            let words = args.iter().filter(|arg| arg.text.contains(' '));
            words.cloned().collect()
        }
        "vim" | "vi" | "nvim" | "view" | "ex" => {
            let after = |at: usize| args[at - 1].text == "-c" || args[at - 1].text == "--cmd";
            let lines = args.iter().enumerate().filter_map(|(at, arg)| {
                let line = arg.text.strip_prefix('+');
                let line = line.or(Some(&*arg.text).filter(|_| at > 0 && after(at)))?;
                let line = line.trim_start_matches([':', ' ']).strip_prefix('!')?;
                Some(arg.with(line))
            });
            lines.collect()
        }
        "tar" | "gtar" | "bsdtar" => {
            let action = wrapper::value(args, None, "checkpoint-action");
            let action = action.and_then(|it| Some(it.with(it.text.strip_prefix("exec=")?)));
            let filter = "to-command use-compress-program";
            let filter = wrapper::value(args, None, filter);
            action.into_iter().chain(filter).collect()
        }
        _ => Vec::new(),
    }
}

/// The commands of tmux that run a program, and which of their flags take a value.
const TMUX_COMMANDS: [(&str, Flags); 8] = [
    ("new-session new", flags("ceFfnstxy", "")),
    ("new-window neww", flags("ceFnt", "")),
    ("split-window splitw", flags("ceFlpt", "")),
    (
        "respawn-pane respawnp respawn-window respawnw",
        flags("cet", ""),
    ),
    ("display-popup popup", flags("bcdehsStTwxy", "")),
    ("run-shell run", flags("cdt", "")),
    ("send-keys send", flags("cNt", "")),
    ("if-shell if pipe-pane pipep", flags("t", "")),
];

fn tmux_flags(command: &str) -> Option<Flags> {
    let mut known = TMUX_COMMANDS.iter();
    let found = known.find(|(names, _)| one_of(command, names));
    found.map(|(_, flags)| *flags)
}

impl Shell<'_> {
    /// `tmux new -d make test`, `tmux send-keys 'make test' Enter`, `tmux if-shell true 'run-shell "make test"'`
    pub(super) fn tmux(&mut self, args: &[Value], stdin: &Output) -> Output {
        self.act("tmux", args, stdin.fed());
        for command in args.split(|arg| arg.text == ";") {
            self.locally(|shell| {
                shell.within("tmux", |shell| shell.tmux_command(command));
            });
        }
        Output::Opaque
    }

    fn tmux_command(&mut self, words: &[Value]) {
        let mut known = words.iter().enumerate();
        let known = known.find_map(|(at, word)| Some((at + 1, tmux_flags(&word.text)?)));
        if let Some((at, flags)) = known {
            for pair in words[at..].windows(2).filter(|pair| pair[0].text == "-e") {
                if let Some((name, value)) = pair[1].text.split_once('=') {
                    self.export(name, value);
                }
            }
            let program = at + flags.skip(&words[at..]);
            if words[program..].len() > 1 {
                self.subshell(|shell| shell.start(&words[program..], &Output::Nothing));
            }
        }
        // A word with a blank is a command of tmux with its words, or a line for a shell.
        let option = wrapper::value(words, Some('c'), "");
        for line in words.iter().filter(|word| word.text.contains(' ')) {
            let first = line.text.split(' ').next().unwrap_or_default();
            let is_run = known.is_some() || option.as_ref().is_some_and(|it| it.text == line.text);
            let script = match tmux_flags(first) {
                Some(_) => format!("tmux {}", line.text),
                None if is_run && !line.text.contains("#{") => line.text.clone(),
                None => continue,
            };
            self.subshell(|shell| shell.script(&script, &Output::Nothing));
        }
    }
}

/// The commands that a script of sed runs: `1e cmd`.
fn executed(script: &Value) -> impl Iterator<Item = Value> {
    let parts = script.text.split([';', '\n']).filter_map(|part| {
        let at = part.trim_start_matches(|c: char| c.is_ascii_digit() || " ,$!".contains(c));
        at.strip_prefix("e ")
    });
    parts.map(|command| script.with(command))
}

/// A name that comes from input: it stays unknown if a shell reads it again.
const UNKNOWN_NAME: &str = "$ARG";

impl Shell<'_> {
    /// The words with `mark` replaced by each name. A script gets all of them at once.
    fn replaced(&mut self, words: &[Value], mark: &str, names: &[Value]) -> Vec<Value> {
        let mut all = Vec::with_capacity(words.len());
        for word in words {
            let marks = word.text.matches(mark).count();
            let made = marks * size(names) + word.text.len() * names.len();
            if marks == 0 || !self.take_room(made) {
                all.push(word.clone());
            } else if word.text.contains(' ') {
                let opaque = word.opaque || names.iter().any(|name| name.opaque);
                let text = word.text.replace(mark, &line(names));
                all.push(Value {
                    opaque,
                    ..word.with(text)
                });
            } else {
                all.extend(
                    names
                        .iter()
                        .map(|name| name.with(word.text.replace(mark, &name.text))),
                );
            }
        }
        all
    }

    /// What `find` would name: all in the folders if nothing is filtered, a pattern below them otherwise.
    fn found(&mut self, roots: &[Value], names: &[&str], filtered: bool) -> Vec<Value> {
        let mut all = Vec::new();
        let length: usize = names.iter().map(|name| name.len() + 8).sum();
        let made = size(roots) * (names.len() + 1) + length * roots.len();
        if !self.take_room(made) {
            return all;
        }
        for root in roots {
            let folder = root.text.trim_end_matches('/');
            if !filtered {
                all.push(root.with(format!("{folder}/*")));
            } else if names.is_empty() {
                all.push(Value::unknown(format!("{folder}/**")));
            }
            all.extend(
                names
                    .iter()
                    .map(|name| Value::unknown(format!("{folder}/**/{name}"))),
            );
        }
        all
    }
}
