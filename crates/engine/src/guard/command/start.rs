//! What a simple command starts: the program itself, or what its arguments or its input say.

use std::path::PathBuf;

use super::super::act::{Access, Fed};
use super::code::{self, Effect, Language};
use super::program;
use super::shell::{Output, Shell, Variable};
use super::word::Value;
use super::wrapper::{self, Flags, has, is_flag};

const SHELLS: [&str; 9] = [
    "bash", "sh", "zsh", "dash", "ksh", "ash", "fish", "rbash", "mksh",
];
const SSH: Flags = Flags {
    short: "bcDEeFIiJLlmOopQRSWw",
    long: &[],
};
const DOCKER: Flags = Flags {
    short: "euvwphlmc",
    long: &[
        "--env",
        "--user",
        "--volume",
        "--workdir",
        "--publish",
        "--name",
        "--network",
        "--net",
        "--entrypoint",
        "--mount",
        "--env-file",
        "--hostname",
        "--label",
        "--memory",
        "--cpus",
        "--platform",
        "--add-host",
        "--gpus",
        "--cap-add",
        "--cap-drop",
        "--security-opt",
        "--device",
        "--tmpfs",
        "--ulimit",
        "--restart",
        "--pid",
        "--ipc",
        "--shm-size",
        "--dns",
        "--index",
        "--link",
        "--log-driver",
        "--runtime",
        "--userns",
        "--volumes-from",
    ],
};
const KUBECTL: Flags = Flags {
    short: "ncf",
    long: &[
        "--namespace",
        "--container",
        "--context",
        "--kubeconfig",
        "--cluster",
    ],
};
const COMPOSE: Flags = Flags {
    short: "fpeuwv",
    long: &[
        "--file",
        "--project-name",
        "--env-file",
        "--profile",
        "--env",
        "--user",
        "--workdir",
        "--index",
    ],
};
const XARGS: Flags = Flags {
    short: "IdEnPLsa",
    long: &[
        "--replace",
        "--delimiter",
        "--max-args",
        "--max-procs",
        "--max-lines",
        "--max-chars",
        "--arg-file",
    ],
};
const PARALLEL: Flags = Flags {
    short: "jSnNPa",
    long: &["--jobs", "--delay", "--timeout", "--colsep", "--joblog"],
};

impl Shell<'_> {
    /// Reads a command whose words are expanded. Gives what it prints.
    pub(super) fn start(&mut self, words: Vec<Value>, stdin: &Output) -> Output {
        if words.is_empty() {
            return Output::Nothing;
        }
        self.deeper(|shell| shell.start_words(&words, stdin))
            .unwrap_or(Output::Opaque)
    }

    fn start_words(&mut self, words: &[Value], stdin: &Output) -> Output {
        let (name, args) = (&words[0], &words[1..]);
        let last = name.text.rsplit('/').next().unwrap_or_default();
        let program =
            if last.contains(['$', '`', '*', '?']) || name.opaque && !name.text.contains('/') {
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
        if SHELLS.contains(&program) {
            return self.run_shell(program, args, stdin);
        }
        if let Some(language) = Language::of(program) {
            return self.run_code(program, language, args, stdin);
        }
        match program {
            "cd" | "pushd" | "popd" => self.change_folder(program, args, stdin),
            "eval" => self.eval(args, stdin),
            "source" | "." => self.source(program, args, stdin),
            "trap" => {
                self.act(program, args, stdin.fed());
                let script = args
                    .iter()
                    .find(|arg| !is_flag(&arg.text))
                    .filter(|_| args.len() > 1);
                if let Some(script) = script {
                    self.within("trap", |shell| {
                        shell.subshell(|shell| shell.script(&script.text, &Output::Nothing))
                    });
                }
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
                let script = wrapper::value(args, Some('c'), &["command"]);
                self.nested("su -c", true, false, |shell| match (&script, stdin) {
                    (Some(script), _) => shell.script(&script.text, stdin),
                    (None, Output::Text(text, _)) => shell.script(text, &Output::Nothing),
                    _ => Output::Opaque,
                })
            }
            "script" => {
                self.act(program, args, stdin.fed());
                match wrapper::value(args, Some('c'), &["command"]) {
                    Some(script) => {
                        self.within("script -c", |shell| shell.script(&script.text, stdin))
                    }
                    None => Output::Opaque,
                }
            }
            "at" | "batch" => {
                self.act(program, args, stdin.fed());
                match stdin {
                    Output::Text(text, _) => {
                        self.within("at", |shell| shell.script(text, &Output::Nothing))
                    }
                    _ => Output::Nothing,
                }
            }
            "docker" | "podman" | "nerdctl" | "docker-compose" | "kubectl" | "oc" | "lxc" => {
                self.container(program, args, stdin)
            }
            "git" => self.git(args, stdin),
            "tmux" => self.tmux(args, stdin),
            _ => self.plain(name, program, args, stdin),
        }
    }

    /// An act with the paths that its arguments name.
    fn act(&mut self, program: &str, args: &[Value], fed: Fed) -> usize {
        let act = self.push_act(program, args, fed);
        if !self.context.remote {
            self.touches(program, args, act);
        }
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

    /// Reads with `$1`, `$2` and `$@` set.
    fn with_arguments<R>(&mut self, args: &[Value], body: impl FnOnce(&mut Self) -> R) -> R {
        let names = (1..=args.len().min(9)).map(|n| n.to_string());
        let new = names.zip(args).map(|(name, arg)| {
            (
                name,
                Variable {
                    values: vec![arg.clone()],
                    array: false,
                },
            )
        });
        let all = (
            "@".to_owned(),
            Variable {
                values: args.to_vec(),
                array: false,
            },
        );
        let old: Vec<_> = new
            .chain([all])
            .map(|(name, new)| (name.clone(), self.scope.variables.insert(name, new)))
            .collect();
        let result = body(self);
        for (name, old) in old {
            match old {
                Some(old) => self.scope.variables.insert(name, old),
                None => self.scope.variables.remove(&name),
            };
        }
        result
    }

    fn nested<R>(
        &mut self,
        via: &str,
        elevated: bool,
        remote: bool,
        body: impl FnOnce(&mut Self) -> R,
    ) -> R {
        self.within(via, |shell| {
            shell.context.elevated |= elevated;
            shell.context.remote |= remote;
            body(shell)
        })
    }

    fn wrapped(
        &mut self,
        wrapper: &wrapper::Wrapper,
        program: &str,
        args: &[Value],
        stdin: &Output,
    ) -> Output {
        if program == "command" && has(args, "vV", &[]) {
            self.act(program, args, stdin.fed());
            return args.last().map_or(Output::Opaque, |name| {
                Output::Text(name.text.clone() + "\n", name.opaque)
            });
        }
        if program == "env"
            && let Some(line) = wrapper::value(args, Some('S'), &["split-string"])
        {
            return self.within("env", |shell| shell.script(&line.text, stdin));
        }
        let mut at = wrapper.command(args);
        let variables = self.scope.variables.clone();
        if matches!(program, "env" | "sudo" | "doas") {
            while let Some((name, value)) = args.get(at).and_then(|arg| arg.text.split_once('=')) {
                let value = Value {
                    text: value.to_owned(),
                    ..args[at].clone()
                };
                self.scope.variables.insert(
                    name.to_owned(),
                    Variable {
                        values: vec![value],
                        array: false,
                    },
                );
                at += 1;
            }
        }
        let inner = &args[at..];
        let script = match program {
            "flock" | "npx" => wrapper::value(&args[..at], Some('c'), &["command", "call"]),
            // `watch 'a b'` and the like give one word to a shell.
            "watch" if inner.len() == 1 => inner.first().cloned(),
            _ => None,
        };
        let output = if inner.is_empty() && script.is_none() {
            self.context.elevated |= wrapper.elevated;
            self.act(program, args, stdin.fed());
            self.context.elevated = false;
            Output::Opaque
        } else {
            self.nested(
                wrapper.name,
                wrapper.elevated,
                false,
                |shell| match script {
                    Some(script) => shell.script(&script.text, stdin),
                    None => shell.start(inner.to_vec(), stdin),
                },
            )
        };
        self.scope.variables = variables;
        output
    }

    fn run_shell(&mut self, program: &str, args: &[Value], stdin: &Output) -> Output {
        const FLAGS: Flags = Flags {
            short: "oO",
            long: &["--rcfile", "--init-file"],
        };
        let operands = FLAGS.operands(args);
        let string = args
            .iter()
            .any(|arg| is_flag(&arg.text) && !arg.text.starts_with("--") && arg.text.contains('c'));
        if string {
            let script = operands.first().copied();
            let network = script.is_some_and(|script| script.network);
            self.act(
                program,
                args,
                if network { Fed::Network } else { stdin.fed() },
            );
            let Some(script) = script.filter(|_| !network) else {
                return Output::Opaque;
            };
            let rest: Vec<Value> = operands
                .iter()
                .skip(2)
                .map(|value| (*value).clone())
                .collect();
            let zero = operands.get(1).map(|value| (*value).clone());
            return self.within(&format!("{program} -c"), |shell| {
                shell.subshell(|shell| {
                    if let Some(zero) = zero {
                        shell.scope.variables.insert(
                            "0".into(),
                            Variable {
                                values: vec![zero],
                                array: false,
                            },
                        );
                    }
                    shell.with_arguments(&rest, |shell| shell.script(&script.text, stdin))
                })
            });
        }
        let file = operands.first().filter(|_| !has(args, "s", &[])).copied();
        let script = match file {
            Some(file) if file.text != "-" && file.text != "/dev/stdin" => {
                self.printed_by_file(file)
            }
            _ => stdin.clone(),
        };
        let fed = match (&script, file) {
            (Output::Network, _) => Fed::Network,
            (_, Some(_)) => stdin.fed(),
            (script, None) => script.fed(),
        };
        self.act(program, args, fed);
        match script {
            Output::Text(text, _) => {
                let rest: Vec<Value> = operands
                    .iter()
                    .skip(1)
                    .map(|value| (*value).clone())
                    .collect();
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
        let line = args
            .iter()
            .map(|arg| arg.text.as_str())
            .collect::<Vec<_>>()
            .join(" ");
        let network = args.iter().any(|arg| arg.network);
        if network || args.iter().any(|arg| arg.opaque) {
            self.act(
                "eval",
                args,
                if network { Fed::Network } else { stdin.fed() },
            );
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
        let network = code == Output::Network;
        let act = self.act(
            program,
            args,
            if network { Fed::Network } else { stdin.fed() },
        );
        if let Output::Text(code, opaque) = code {
            let via = if given.is_some() {
                language.via(program)
            } else {
                program.to_owned()
            };
            self.within(&via, |shell| {
                for effect in code::effects(language, &code) {
                    match effect {
                        Effect::Script(script) => {
                            shell.subshell(|shell| shell.script(&script.text, &Output::Nothing));
                        }
                        Effect::Start(words) => {
                            shell.subshell(|shell| shell.start(words, &Output::Nothing));
                        }
                        Effect::Touch(mut path, access, recursive) => {
                            path.opaque |= opaque;
                            if let Some(rest) = path.text.strip_prefix("~/") {
                                path.text = format!("{}/{rest}", shell.home.display());
                            }
                            shell.touch(&path, access, recursive, Some(act));
                        }
                        Effect::Network => shell.read.acts[act].fed = Fed::Network,
                    }
                }
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
        const FLAGS: Flags = Flags {
            short: "adinNptuOscC",
            long: &[],
        };
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
                ..Value::unknown("{}")
            }],
        }
    }

    fn xargs(&mut self, args: &[Value], stdin: &Output) -> Output {
        let at = XARGS.skip(args);
        let (flags, inner) = args.split_at(at);
        let names = Self::names(stdin);
        if inner.is_empty() {
            self.act("xargs", args, stdin.fed());
            return Output::Opaque;
        }
        let mark = match wrapper::value(flags, Some('I'), &["replace"]) {
            Some(mark) => mark.text,
            None if has(flags, "i", &[]) => "{}".to_owned(),
            None => String::new(),
        };
        let words = if mark.is_empty() {
            inner.iter().cloned().chain(names).collect()
        } else {
            replaced(inner, &mark, &names)
        };
        self.within("xargs", |shell| shell.start(words, &Output::Nothing))
    }

    fn parallel(&mut self, args: &[Value], stdin: &Output) -> Output {
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
            true => replaced(inner, "{}", &names),
            false => inner.iter().cloned().chain(names).collect(),
        };
        let line = words
            .iter()
            .map(|word| word.text.as_str())
            .collect::<Vec<_>>()
            .join(" ");
        self.within("parallel", |shell| shell.script(&line, &Output::Nothing))
    }

    fn find(&mut self, args: &[Value], stdin: &Output) -> Output {
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
        let mut name: Option<&str> = None;
        let mut filtered = false;
        let mut at = 0;
        let mut output = Output::Nothing;
        while let Some(test) = tests.get(at) {
            at += 1;
            let value = tests.get(at);
            match test.text.as_str() {
                "-delete" => {
                    for found in found(&roots, name, filtered) {
                        self.touch(&found, Access::Delete, !found.opaque, Some(act));
                    }
                }
                "-exec" | "-execdir" | "-ok" | "-okdir" => {
                    let end = tests[at..]
                        .iter()
                        .position(|word| word.text == ";" || word.text == "+");
                    let inner = &tests[at..end.map_or(tests.len(), |end| at + end)];
                    at += inner.len() + 1;
                    let words = replaced(inner, "{}", &found(&roots, name, filtered));
                    output = self.within(&format!("find {}", test.text), |shell| {
                        shell.start(words, &Output::Nothing)
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
                        name = pattern.rsplit('/').next().filter(|_| !negated);
                    }
                    at += 1;
                }
                "-type" | "-maxdepth" | "-mindepth" | "-D" | "-printf" => at += 1,
                "-print"
                | "-print0"
                | "-depth"
                | "-xdev"
                | "-mount"
                | "-ls"
                | "-prune"
                | "-o"
                | "-a"
                | "!"
                | "-not"
                | "("
                | ")"
                | "-follow"
                | "-noleaf"
                | "-ignore_readdir_race"
                | "-d" => {}
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
            Output::Names(found(&roots, name, filtered))
        } else {
            output
        }
    }

    fn fd(&mut self, program: &str, args: &[Value], stdin: &Output) -> Output {
        self.act(program, args, stdin.fed());
        let at = args
            .iter()
            .position(|arg| matches!(arg.text.as_str(), "-x" | "-X" | "--exec" | "--exec-batch"));
        if let Some(at) = at {
            let mut words = replaced(&args[at + 1..], "{}", &[Value::unknown("{}")]);
            if !args[at..].iter().any(|arg| arg.text.contains('{')) {
                words.push(Value::unknown("{}"));
            }
            self.within("fd -x", |shell| shell.start(words, &Output::Nothing));
        }
        Output::Opaque
    }

    fn ssh(&mut self, args: &[Value], stdin: &Output) -> Output {
        self.push_act("ssh", args, stdin.fed());
        let host = SSH.skip(args);
        let rest = args.get(host + 1..).unwrap_or_default();
        let rest = &rest[SSH.skip(rest)..];
        let line = rest
            .iter()
            .map(|arg| arg.text.as_str())
            .collect::<Vec<_>>()
            .join(" ");
        self.nested("ssh", false, true, |shell| {
            shell.subshell(|shell| match (line.is_empty(), stdin) {
                (false, _) => shell.script(&line, stdin),
                (true, Output::Text(text, _)) => shell.script(text, &Output::Nothing),
                _ => Output::Nothing,
            })
        });
        Output::Network
    }

    /// `docker exec NAME cmd`, `docker run IMAGE cmd`, `kubectl exec NAME -- cmd`
    fn container(&mut self, program: &str, args: &[Value], stdin: &Output) -> Output {
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
        let entry = wrapper::value(&rest[..rest.len() - command.len()], None, &["entrypoint"]);
        let words: Vec<Value> = entry.into_iter().chain(command.iter().cloned()).collect();
        self.nested(&format!("{program} {verb}"), false, true, |shell| {
            shell.subshell(|shell| shell.start(words, stdin))
        })
    }

    fn git(&mut self, args: &[Value], stdin: &Output) -> Output {
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
                ("-c" | "--config-env", Some(setting)) => self.git_alias(&setting.text),
                _ => {}
            }
            let two = matches!(
                flag.text.as_str(),
                "-C" | "-c"
                    | "--git-dir"
                    | "--work-tree"
                    | "--namespace"
                    | "--config-env"
                    | "--exec-path"
            );
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
            let rest = args[1..]
                .iter()
                .map(|arg| arg.text.as_str())
                .collect::<Vec<_>>()
                .join(" ");
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
                if let (Some(key), Some(value)) = (words.next(), words.next()) {
                    self.git_alias(&format!("{}={}", key.text, value.text));
                }
                None
            }
            "submodule" | "bisect" => {
                let at = args
                    .iter()
                    .position(|arg| matches!(arg.text.as_str(), "foreach" | "run"));
                at.map(|at| {
                    let words = args[at + 1..]
                        .iter()
                        .filter(|arg| arg.text != "--recursive");
                    words
                        .map(|arg| arg.text.as_str())
                        .collect::<Vec<_>>()
                        .join(" ")
                })
            }
            "rebase" => wrapper::value(args, Some('x'), &["exec"]).map(|script| script.text),
            "filter-branch" => {
                let filters = ["tree-filter", "index-filter", "msg-filter", "env-filter"];
                wrapper::value(args, None, &filters).map(|script| script.text)
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

    /// `tmux new-session 'cmd'`, `tmux send-keys 'cmd' Enter`
    fn tmux(&mut self, args: &[Value], stdin: &Output) -> Output {
        const FLAGS: Flags = Flags {
            short: "tsncxyFeLfSdl",
            long: &[],
        };
        self.push_act("tmux", args, stdin.fed());
        let at = FLAGS.skip(args);
        let Some((verb, rest)) = args[at..].split_first() else {
            return Output::Nothing;
        };
        let starts = [
            "new",
            "neww",
            "splitw",
            "respawn",
            "run",
            "send",
            "popup",
            "display-popup",
            "split-window",
            "if",
        ];
        if starts.iter().any(|start| verb.text.starts_with(start)) {
            const VERB: Flags = Flags {
                short: "tsncxyFe",
                long: &[],
            };
            let words = VERB.operands(rest);
            let keys = ["Enter", "C-m", "KPEnter", "C-j"];
            let words = words
                .iter()
                .map(|word| word.text.as_str())
                .filter(|word| !keys.contains(word));
            let line = words.collect::<Vec<_>>().join(" ");
            self.within("tmux", |shell| {
                shell.subshell(|shell| shell.script(&line, &Output::Nothing))
            });
        }
        Output::Nothing
    }
}

/// The words with `mark` replaced by each name; a word that only contains it gets the first.
fn replaced(words: &[Value], mark: &str, names: &[Value]) -> Vec<Value> {
    let mut all = Vec::with_capacity(words.len());
    for word in words {
        if word.text == mark {
            all.extend(names.iter().cloned());
        } else if word.text.contains(mark)
            && let Some(name) = names.first()
        {
            let text = word.text.replace(mark, &name.text);
            all.push(Value {
                text,
                opaque: word.opaque || name.opaque,
                network: name.network,
                ..word.clone()
            });
        } else {
            all.push(word.clone());
        }
    }
    all
}

/// What `find` would name: the folders themselves if nothing is filtered, a pattern below them otherwise.
fn found(roots: &[Value], name: Option<&str>, filtered: bool) -> Vec<Value> {
    let below = |root: &Value| match (filtered, name) {
        (false, _) => root.clone(),
        (true, Some(name)) => {
            Value::unknown(format!("{}/**/{name}", root.text.trim_end_matches('/')))
        }
        (true, None) => Value::unknown(format!("{}/**", root.text.trim_end_matches('/'))),
    };
    roots.iter().map(below).collect()
}
