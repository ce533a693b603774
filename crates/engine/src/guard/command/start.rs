//! What a simple command starts: the program itself, or what its arguments or its input say.

use std::path::PathBuf;

use super::super::act::{Access, Fed};
use super::super::edit::WITHOUT_HOOKS;
use super::super::glob::word_matches;
use super::code::{self, Effect, Language};
use super::launcher::commands_in_flags;
use super::program;
use super::shell::{Output, Shell, Variable};
use super::touch::BECKET_FLAGS;
use super::word::{Value, size};
use super::wrapper::{self, Flags, flags, has, is_flag, one_of};

/// What a glob in place of a program's name most likely means.
const GLOBBED: &str = "rm cat dd mv cp sh bash curl wget chmod chown find git shred";
const RESERVED: &str = "! { if then elif else while until do";
const SHELLS: &str = "bash sh zsh dash ksh ash fish rbash mksh";

/// Before the script that `node` runs. `-e` is not among them: after it stands code, and no script.
const NODE_FLAGS: Flags = flags("rC", "require import loader conditions env-file");

impl Shell<'_> {
    /// Reads a command whose words are expanded. Gives what it prints.
    pub(super) fn start(&mut self, words: &[Value], stdin: &Output) -> Output {
        if words.is_empty() {
            return Output::Nothing;
        }
        self.deeper(|shell| shell.start_words(words, stdin))
            .unwrap_or(Output::Opaque)
    }

    fn start_words(&mut self, words: &[Value], stdin: &Output) -> Output {
        let (name, args) = (&words[0], &words[1..]);
        // The grammar takes these for a program where one of them stands behind another.
        if one_of(&name.text, RESERVED) {
            return self.start(args, stdin);
        }
        if name.opaque && name.text.starts_with('(') {
            // `time ( … )`: the subshell was read as a word.
            return Output::Opaque;
        }
        let last = name.text.rsplit('/').next().unwrap_or_default();
        let program = if is_claude_code(&name.text) {
            "claude"
        } else if last.contains(['*', '?']) && !name.opaque {
            let mut known = GLOBBED.split(' ');
            known.find(|one| word_matches(last, one)).unwrap_or("")
        } else if last.contains(['$', '`']) || name.opaque && !name.text.contains('/') {
            ""
        } else {
            last
        };
        if let Some(body) = self.functions.get(&name.text).cloned() {
            return self.call_function(&name.text, &body, args, stdin);
        }
        if let Some((wrapper, skip)) = wrapper::find(program, args) {
            return self.wrapped(wrapper, program, &args[skip..], stdin);
        }
        if one_of(program, SHELLS) {
            return self.run_shell(program, args, stdin);
        }
        if one_of(program, "node bun deno")
            && let Some(script) = NODE_FLAGS.operands(args).first()
            && is_claude_code(&script.text)
            && let Some(at) = args.iter().position(|arg| std::ptr::eq(arg, *script))
        {
            return self.start(&args[at..], stdin);
        }
        if let Some(language) = Language::of(program) {
            return self.run_code(program, language, args, stdin);
        }
        match program {
            "cd" | "pushd" | "popd" => self.change_folder(program, args, stdin),
            "eval" => self.eval(args, stdin),
            "set" if args.first().is_some_and(|arg| arg.text == "--") => {
                self.act(program, args, stdin.fed());
                self.set_arguments(&args[1..]);
                Output::Nothing
            }
            "source" | "." => self.source(program, args, stdin),
            "trap" => {
                self.act(program, args, stdin.fed());
                let script = args
                    .iter()
                    .find(|arg| !is_flag(&arg.text))
                    .filter(|_| args.len() > 1);
                self.traps.extend(script.map(|script| script.text.clone()));
                Output::Nothing
            }
            "alias" => {
                for (name, body) in args.iter().filter_map(|arg| arg.text.split_once('=')) {
                    self.functions
                        .insert(name.to_owned(), format!("{body} \"$@\"").into());
                }
                self.act(program, args, stdin.fed());
                Output::Nothing
            }
            "read" | "mapfile" | "readarray" => self.read_variables(program, args, stdin),
            "xargs" => self.xargs(args, stdin),
            "parallel" => self.parallel(args, stdin),
            "find" | "gfind" => self.find(args, stdin),
            "fd" | "fdfind" => self.fd(program, args, stdin),
            "ssh" => self.ssh(args, stdin),
            "su" | "runuser" => {
                self.act(program, args, stdin.fed());
                let script = wrapper::value(args, Some('c'), "command");
                self.nested("su -c", true, false, |shell| match (&script, stdin) {
                    (Some(script), _) => shell.script(&script.text, stdin),
                    (None, Output::Text(text, _)) => shell.script(text, &Output::Nothing),
                    _ => Output::Opaque,
                })
            }
            "docker" | "podman" | "nerdctl" | "docker-compose" | "kubectl" | "oc" | "lxc" => {
                self.container(program, args, stdin)
            }
            "git" => self.git(args, stdin),
            "tmux" => self.tmux(args, stdin),
            "make" | "gmake" => self.make(program, args, stdin),
            "cargo" if args.first().is_some_and(|arg| arg.text == "run") => {
                self.cargo_run(args, stdin)
            }
            "becket"
                if BECKET_FLAGS
                    .operands(args)
                    .first()
                    .is_some_and(|it| it.text == "run") =>
            {
                self.becket_run(args, stdin)
            }
            _ => self.plain(name, program, args, stdin),
        }
    }

    /// An act with the paths that its arguments name.
    pub(super) fn act(&mut self, program: &str, args: &[Value], fed: Fed) -> usize {
        let act = self.push_act(program, args, fed);
        self.touches(program, args, act);
        act
    }

    fn plain(&mut self, name: &Value, program: &str, args: &[Value], stdin: &Output) -> Output {
        // A file that the script wrote or fetched before, started by its name.
        let own = name.text.contains('/').then(|| self.printed_by_file(name));
        let fed = if name.network || own == Some(Output::Network) {
            Fed::Network
        } else {
            stdin.fed()
        };
        self.act(program, args, fed);
        if let Some(Output::Text(text, _)) = own {
            self.within(program, |shell| {
                shell.subshell(|shell| shell.script(&text, stdin))
            });
            return Output::Opaque;
        }
        for script in commands_in_flags(program, args) {
            self.within(program, |shell| {
                shell.subshell(|shell| shell.script(&script.text, &Output::Nothing))
            });
        }
        program::output(self, program, args, stdin)
    }

    fn call_function(&mut self, name: &str, body: &str, args: &[Value], stdin: &Output) -> Output {
        if self.calls.iter().any(|call| call == name) {
            // A function that calls itself: its body is being read.
            self.push_act(name, args, stdin.fed());
            return Output::Opaque;
        }
        self.calls.push(name.to_owned());
        let output = self.with_arguments(args, |shell| {
            shell.within(&format!("function {name}"), |shell| {
                shell.script(body, stdin)
            })
        });
        self.calls.pop();
        output
    }

    /// Sets `$1`, `$2` and `$@`; gives what they were.
    fn set_arguments(&mut self, args: &[Value]) -> Vec<(String, Option<Variable>)> {
        let names = (1..=args.len().min(9)).map(|n| n.to_string());
        let new = names
            .zip(args)
            .map(|(name, arg)| (name, Variable::one(arg.clone())));
        let all = Variable {
            values: args.to_vec(),
            array: false,
        };
        new.chain([("@".to_owned(), all)])
            .map(|(name, new)| (name.clone(), self.scope.variables.insert(name, new)))
            .collect()
    }

    /// Reads with `$1`, `$2` and `$@` set.
    fn with_arguments<R>(&mut self, args: &[Value], body: impl FnOnce(&mut Self) -> R) -> R {
        let old = self.set_arguments(args);
        let result = body(self);
        for (name, old) in old {
            match old {
                Some(old) => self.scope.variables.insert(name, old),
                None => self.scope.variables.remove(&name),
            };
        }
        result
    }

    pub(super) fn nested<R>(
        &mut self,
        via: &str,
        elevated: bool,
        remote: bool,
        body: impl FnOnce(&mut Self) -> R,
    ) -> R {
        self.within(via, |shell| {
            shell.context.elevated |= elevated;
            shell.context.remote |= remote;
            shell.locally(|shell| {
                if remote {
                    shell.context.env.clear();
                } else if elevated {
                    // Another user's environment.
                    shell.context.env.push("-i".to_owned());
                }
                body(shell)
            })
        })
    }

    fn wrapped(
        &mut self,
        wrapper: &wrapper::Wrapper,
        program: &str,
        args: &[Value],
        stdin: &Output,
    ) -> Output {
        if program == "command" && has(args, "vV", "") {
            self.act(program, args, stdin.fed());
            return args.last().map_or(Output::Opaque, |name| {
                Output::Text(name.text.clone() + "\n", name.opaque)
            });
        }
        self.locally(|shell| shell.wrapped_command(wrapper, program, args, stdin))
    }

    fn wrapped_command(
        &mut self,
        wrapper: &wrapper::Wrapper,
        program: &str,
        args: &[Value],
        stdin: &Output,
    ) -> Output {
        let mut at = wrapper.command(args);
        if program == "env" && args.get(at).is_some_and(|arg| arg.text == "-") {
            at += 1;
        }
        self.unset_by_wrapper(program, &args[..at]);
        if matches!(program, "env" | "sudo" | "doas" | "cross-env") {
            while let Some((name, value)) = args.get(at).and_then(|arg| arg.text.split_once('=')) {
                self.export(name, value);
                let value = args[at].with(value);
                self.set(name.to_owned(), value);
                at += 1;
            }
        }
        for pair in args[..at].windows(2).filter(|_| program == "systemd-run") {
            let setting = wrapper::value(pair, Some('E'), "setenv");
            if let Some((name, value)) = setting.as_ref().and_then(|it| it.text.split_once('=')) {
                self.export(name, value);
            }
        }
        let inner = &args[at..];
        let script = match program {
            "env" => wrapper::value(&args[..at], Some('S'), "split-string"),
            "flock" | "npx" | "npm" => wrapper::value(&args[..at], Some('c'), "command call"),
            // `watch 'a b'` and the like give one word to a shell.
            "watch" if inner.len() == 1 => inner.first().cloned(),
            _ => None,
        };
        if inner.is_empty() && script.is_none() {
            let act = self.act(program, args, stdin.fed());
            self.read.acts[act].elevated |= wrapper.elevated;
            return Output::Opaque;
        }
        self.nested(
            wrapper.name,
            wrapper.elevated,
            false,
            |shell| match script {
                Some(script) => shell.script(&script.text, stdin),
                None => shell.start(inner, stdin),
            },
        )
    }

    /// `env -i`, `env -u NAME`, `exec -c`: takes variables out of what is started.
    fn unset_by_wrapper(&mut self, program: &str, flags: &[Value]) {
        let clears = match program {
            "env" => has(flags, "i", "ignore-environment") || flags.iter().any(|it| it.text == "-"),
            "exec" => has(flags, "c", ""),
            _ => false,
        };
        if clears {
            self.context.env = vec!["-i".to_owned()];
        }
        for (at, flag) in flags.iter().enumerate().filter(|_| program == "env") {
            let flag = flag.text.as_str();
            let name = match flag.strip_prefix("--unset=").or(flag.strip_prefix("-u")) {
                Some("") => flags.get(at + 1).map(|it| it.text.as_str()),
                None if flag == "--unset" => flags.get(at + 1).map(|it| it.text.as_str()),
                name => name,
            };
            if let Some(name) = name {
                self.unset(name);
            }
        }
    }

    fn run_shell(&mut self, program: &str, args: &[Value], stdin: &Output) -> Output {
        const FLAGS: Flags = flags("oO", "rcfile init-file");
        let operands = FLAGS.operands(args);
        let string = args
            .iter()
            .any(|arg| is_flag(&arg.text) && !arg.text.starts_with("--") && arg.text.contains('c'));
        if string {
            let script = operands.first().copied();
            let network = script.is_some_and(|script| script.network);
            self.push_act(program, args, fed_by(network, stdin));
            let Some(script) = script.filter(|_| !network) else {
                return Output::Opaque;
            };
            let rest: Vec<Value> = operands.iter().skip(2).copied().cloned().collect();
            let zero = operands.get(1).copied().cloned();
            return self.within(&format!("{program} -c"), |shell| {
                shell.subshell(|shell| {
                    if let Some(zero) = zero {
                        shell.set("0", zero);
                    }
                    shell.with_arguments(&rest, |shell| shell.script(&script.text, stdin))
                })
            });
        }
        let file = operands.first().filter(|_| !has(args, "s", "")).copied();
        let script = match file {
            Some(file) if file.text != "-" && file.text != "/dev/stdin" => {
                self.printed_by_file(file)
            }
            _ => stdin.clone(),
        };
        let fed = match (&script, file) {
            (Output::Network, _) => Fed::Network,
            // `sh < file` is `sh file`.
            (Output::File, _) if *stdin == Output::File => Fed::Nothing,
            (_, Some(_)) => stdin.fed(),
            (script, None) => script.fed(),
        };
        let act = self.push_act(program, args, fed);
        if let Some(file) = file {
            self.touch(file, Access::Read, false, Some(act));
        }
        match script {
            Output::Text(text, _) => {
                let rest: Vec<Value> = operands.iter().skip(1).copied().cloned().collect();
                self.within(program, |shell| {
                    shell.subshell(|shell| {
                        shell.with_arguments(&rest, |shell| shell.script(&text, &Output::Nothing))
                    })
                })
            }
            _ => Output::Opaque,
        }
    }

    fn eval(&mut self, args: &[Value], stdin: &Output) -> Output {
        let line = line(args);
        let network = args.iter().any(|arg| arg.network);
        if network || args.iter().any(|arg| arg.opaque) {
            self.push_act("eval", args, fed_by(network, stdin));
        }
        if network {
            return Output::Opaque;
        }
        self.within("eval", |shell| shell.script(&line, stdin))
    }

    fn source(&mut self, program: &str, args: &[Value], stdin: &Output) -> Output {
        let script = match args.first() {
            Some(file) if file.text == "/dev/stdin" => stdin.clone(),
            Some(file) => self.printed_by_file(file),
            None => Output::Nothing,
        };
        self.act(
            program,
            args,
            if script == Output::Network {
                Fed::Network
            } else {
                stdin.fed()
            },
        );
        match script {
            Output::Text(text, _) => self.within("source", |shell| shell.script(&text, stdin)),
            _ => Output::Opaque,
        }
    }

    fn run_code(
        &mut self,
        program: &str,
        language: Language,
        args: &[Value],
        stdin: &Output,
    ) -> Output {
        let given = language.code(args);
        let operand = args.iter().find(|arg| !is_flag(&arg.text));
        let code = match (&given, operand) {
            (Some(code), _) => code.clone().printed(),
            (None, Some(file)) if file.text != "-" => self.printed_by_file(file),
            (None, _)
                if args
                    .iter()
                    .any(|arg| matches!(arg.text.as_str(), "-m" | "-V" | "--version")) =>
            {
                Output::Nothing
            }
            _ => stdin.clone(),
        };
        let fed = if code == Output::Network {
            Fed::Network
        } else if code == Output::File && *stdin == Output::File {
            Fed::Nothing
        } else {
            stdin.fed()
        };
        let act = self.push_act(program, args, fed);
        let code_word = |arg: &&Value| given.as_ref().is_none_or(|given| given.text != arg.text);
        match language {
            Language::Awk | Language::Perl | Language::Ruby => self.touches(program, args, act),
            _ => {
                let rest: Vec<Value> = args.iter().filter(code_word).cloned().collect();
                self.touches(program, &rest, act);
                if let Some(file) =
                    operand.filter(|file| given.is_none() && !file.text.contains('/'))
                {
                    self.touch(file, Access::Read, false, Some(act));
                }
            }
        }
        if let Output::Text(code, opaque) = code {
            let via = if given.is_some() {
                language.via(program)
            } else {
                program.to_owned()
            };
            self.within(&via, |shell| {
                let env = shell.context.env.clone();
                for name in WITHOUT_HOOKS.iter().filter(|name| code.contains(**name)) {
                    shell.export(name, "1");
                }
                for effect in code::effects(language, &code) {
                    match effect {
                        Effect::Script(script) => {
                            shell.subshell(|shell| shell.script(&script.text, &Output::Nothing));
                        }
                        Effect::Start(words) => {
                            shell.subshell(|shell| shell.start(&words, &Output::Nothing));
                        }
                        Effect::Touch(mut path, access, recursive) => {
                            path.opaque |= opaque;
                            match path.text.strip_prefix('~') {
                                Some(rest) if rest.is_empty() || rest.starts_with('/') => {
                                    path.text = format!("{}{rest}", shell.home.display());
                                }
                                _ => {}
                            }
                            shell.touch(&path, access, recursive, Some(act));
                        }
                        Effect::Network => shell.read.acts[act].fed = Fed::Network,
                        Effect::Unread => shell.unread("too much to read".into()),
                    }
                }
                shell.context.env = env;
            });
        }
        program::output(self, program, args, stdin)
    }

    fn change_folder(&mut self, program: &str, args: &[Value], stdin: &Output) -> Output {
        self.push_act(program, args, stdin.fed());
        let target = args
            .iter()
            .find(|arg| !is_flag(&arg.text) || arg.text == "-");
        let here = self.scope.cwd.clone();
        let folder = match (program, target) {
            ("popd", _) => self.scope.pushed.pop().flatten(),
            (_, None) => Some(self.home.to_path_buf()),
            (_, Some(target)) if target.text == "-" => self.scope.before.clone(),
            (_, Some(target)) => self
                .absolute(target)
                .filter(|path| !target.opaque && path.starts_with('/'))
                .map(PathBuf::from),
        };
        if program == "pushd" {
            self.scope.pushed.push(here.clone());
        }
        self.scope.before = here;
        self.scope.cwd = folder;
        Output::Nothing
    }

    fn read_variables(&mut self, program: &str, args: &[Value], stdin: &Output) -> Output {
        const FLAGS: Flags = flags("adinNptuOscC", "");
        self.push_act(program, args, stdin.fed());
        let values = match stdin {
            Output::Text(text, opaque) => text
                .lines()
                .take(64)
                .map(|line| Value {
                    opaque: *opaque,
                    ..Value::known(line)
                })
                .collect(),
            Output::Names(names) => names.clone(),
            _ => Vec::new(),
        };
        let names = FLAGS.operands(args);
        let array = program != "read";
        for (at, name) in names.iter().enumerate() {
            if !self.take_room(size(&values)) {
                break;
            }
            let mut values = values.clone();
            if values.is_empty() {
                values = vec![Value {
                    network: *stdin == Output::Network,
                    ..Value::unknown(format!("${}", name.text))
                }];
            } else if names.len() > 1 {
                for value in &mut values {
                    let part = value.text.split_whitespace().nth(at).unwrap_or_default();
                    value.text = part.to_owned();
                }
            }
            self.scope
                .variables
                .insert(name.text.clone(), Variable { values, array });
        }
        Output::Nothing
    }
}

/// Returns true for Claude Code under another name than `claude`: its package, its script, or a version of
/// the native installer.
fn is_claude_code(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default();
    let package = name.split('@').next();
    // `claude.exe` is the program of the npm package, on every system.
    package == Some("claude-code")
        || name == "claude.exe"
        || path.contains("/claude-code/") && name.starts_with("cli")
        || path.contains("/claude/versions/")
        || path.ends_with(".bin/claude")
}

pub(super) fn line(words: &[Value]) -> String {
    let words: Vec<&str> = words.iter().map(|word| word.text.as_str()).collect();
    words.join(" ")
}

fn fed_by(network: bool, stdin: &Output) -> Fed {
    if network { Fed::Network } else { stdin.fed() }
}
