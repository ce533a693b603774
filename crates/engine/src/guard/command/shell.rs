//! Walks the statements of a script and keeps what the shell would know at each of them.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, Instant};

use tree_sitter::Node;

use super::super::act::{Access, Act, Fed, TOUCHES, Touch};
use super::super::path;
use super::Read;
use super::redirect::Redirects;
use super::syntax::{self, Kind, children, kind, text};
use super::word::{Value, size};
use super::wrapper::one_of;

/// How much script is read, nested scripts included.
const BYTES: usize = 128 * 1024;
/// Bytes of text that are made of it: values, files, acts and paths.
pub(super) const TEXT: usize = 1024 * 1024;
const ACTS: usize = 4096;
const DEPTH: usize = 100;
const STEPS: usize = 200_000;
const TIME: Duration = Duration::from_millis(250);
/// A loop over more values is read once, with all of them in its variable.
const ROUNDS: usize = 16;

/// What a program prints or reads.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) enum Output {
    #[default]
    Nothing,
    /// A text. The flag says that a part of it is not known and stands as it is written.
    Text(String, bool),
    /// Names of files, one a line.
    Names(Vec<Value>),
    Network,
    /// What stands in a file that the script did not write.
    File,
    Opaque,
}

impl Output {
    pub(super) fn fed(&self) -> Fed {
        match self {
            Output::Nothing => Fed::Nothing,
            Output::Text(_, false) => Fed::Text,
            Output::Network => Fed::Network,
            Output::Text(..) | Output::Names(_) | Output::File | Output::Opaque => Fed::Opaque,
        }
    }

    pub(super) fn size(&self) -> usize {
        match self {
            Output::Text(text, _) => text.len(),
            Output::Names(names) => size(names),
            _ => 0,
        }
    }

    pub(super) fn then(self, next: Output) -> Output {
        match (self, next) {
            (Output::Nothing, one) | (one, Output::Nothing) => one,
            (Output::Network, _) | (_, Output::Network) => Output::Network,
            (Output::File, Output::File) => Output::File,
            (Output::Text(mut all, opaque), Output::Text(more, also))
                if all.len() + more.len() < BYTES =>
            {
                all.push_str(&more);
                Output::Text(all, opaque || also)
            }
            _ => Output::Opaque,
        }
    }
}

/// What a subshell does not give back.
#[derive(Debug, Clone)]
pub(super) struct Scope {
    pub(super) variables: HashMap<String, Variable>,
    pub(super) cwd: Option<PathBuf>,
    pub(super) before: Option<PathBuf>,
    pub(super) pushed: Vec<Option<PathBuf>>,
}

/// A scalar with more than one value has one of them, depending on which way the script went.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Variable {
    pub(super) values: Vec<Value>,
    pub(super) array: bool,
}

impl Variable {
    pub(super) fn one(value: Value) -> Variable {
        Variable {
            values: vec![value],
            array: false,
        }
    }
}

/// How the acts that are read now are started.
#[derive(Debug, Clone, Default)]
pub(super) struct Context {
    pub(super) elevated: bool,
    pub(super) remote: bool,
    pub(super) via: Vec<String>,
    /// `NAME=value` of the variables that they get; see `Act::env`.
    pub(super) env: Vec<String>,
}

#[derive(Debug)]
pub(super) struct Shell<'h> {
    pub(super) home: &'h Path,
    pub(super) scope: Scope,
    pub(super) context: Context,
    pub(super) functions: HashMap<String, Rc<str>>,
    /// What the script wrote into files before, or what a process substitution prints.
    pub(super) files: HashMap<String, Output>,
    pub(super) aliases: HashMap<String, String>,
    pub(super) calls: Vec<String>,
    /// Scripts that run at the end.
    pub(super) traps: Vec<String>,
    pub(super) read: Read,
    depth: usize,
    steps: usize,
    left: usize,
    /// The rest of [`TEXT`].
    room: usize,
    by: Instant,
}

impl<'h> Shell<'h> {
    pub(super) fn new(cwd: &Path, home: &'h Path) -> Self {
        Shell {
            home,
            scope: Scope {
                variables: HashMap::new(),
                cwd: Some(cwd.to_path_buf()),
                before: None,
                pushed: Vec::new(),
            },
            context: Context::default(),
            functions: HashMap::new(),
            files: HashMap::new(),
            aliases: HashMap::new(),
            calls: Vec::new(),
            traps: Vec::new(),
            read: Read::default(),
            depth: 0,
            steps: 0,
            left: BYTES,
            room: TEXT,
            by: Instant::now() + TIME,
        }
    }

    pub(super) fn read(mut self, command: &str) -> Read {
        self.script(command, &Output::Nothing);
        for trap in std::mem::take(&mut self.traps) {
            self.within("trap", |shell| shell.script(&trap, &Output::Nothing));
        }
        self.read
    }

    /// Reads a script in the shell as it is now.
    pub(super) fn script(&mut self, script: &str, stdin: &Output) -> Output {
        if script.trim().is_empty() {
            return Output::Nothing;
        }
        let mut end = script.len().min(self.left);
        while !script.is_char_boundary(end) {
            end -= 1;
        }
        if end < script.len() {
            self.unread(format!("{} bytes past the limit", script.len() - end));
        }
        self.left -= end;
        let script = &script[..end];
        let mut tree = syntax::parse(script, self.by);
        let mut again = None;
        if tree
            .as_ref()
            .is_some_and(|tree| tree.root_node().has_error())
        {
            again = syntax::braces_first(script);
            if let Some(again) = &again {
                tree = syntax::parse(again, self.by);
            }
        }
        let script = again.as_deref().unwrap_or(script);
        let Some(tree) = tree else {
            self.unread("it takes too long to parse".into());
            return Output::Opaque;
        };
        let root = tree.root_node();
        let known = self.read.unread.len();
        let output = self.statement(root, script, stdin);
        if root.has_error() && self.read.unread.len() == known {
            self.unread("a syntax error".into());
        }
        self.read.is_broken |= root.has_error();
        output
    }

    /// Reads with another context: `through` changes it, and it is restored after.
    pub(super) fn within<R>(&mut self, via: &str, through: impl FnOnce(&mut Self) -> R) -> R {
        let (elevated, remote) = (self.context.elevated, self.context.remote);
        self.context.via.push(via.to_owned());
        let result = through(self);
        self.context.via.pop();
        (self.context.elevated, self.context.remote) = (elevated, remote);
        result
    }

    /// Reads with a folder and variables of its own.
    pub(super) fn subshell<R>(&mut self, body: impl FnOnce(&mut Self) -> R) -> R {
        let (cwd, before) = (self.scope.cwd.clone(), self.scope.before.clone());
        let pushed = self.scope.pushed.clone();
        let result = self.locally(body);
        (self.scope.cwd, self.scope.before, self.scope.pushed) = (cwd, before, pushed);
        result
    }

    /// Reads with variables of its own.
    pub(super) fn locally<R>(&mut self, body: impl FnOnce(&mut Self) -> R) -> R {
        let size = self.held();
        if !self.take_room(size) {
            return body(self);
        }
        let (variables, env) = (self.scope.variables.clone(), self.context.env.clone());
        let result = body(self);
        self.scope.variables = variables;
        self.context.env = env;
        self.room += size;
        result
    }

    /// Reads what may run or not: a variable that it sets has the old value or the new one.
    fn branch<R>(&mut self, body: impl FnOnce(&mut Self) -> R) -> R {
        let size = self.held();
        if !self.take_room(size) {
            return body(self);
        }
        let before = self.scope.clone();
        let result = body(self);
        self.room += size;
        for (name, old) in before.variables {
            let now = self.scope.variables.entry(name).or_default();
            if *now == old || old.array || now.values.len() + old.values.len() > 4 * ROUNDS {
                continue;
            }
            let mut values = old.values;
            for value in std::mem::take(&mut now.values) {
                if !values.contains(&value) {
                    values.push(value);
                }
            }
            now.values = values;
        }
        if self.scope.cwd != before.cwd {
            self.scope.cwd = None;
        }
        result
    }

    pub(super) fn unread(&mut self, why: String) {
        if self.read.unread.len() < 8 && !self.read.unread.contains(&why) {
            self.read.unread.push(why);
        }
    }

    /// The size of what a subshell has to keep.
    fn held(&self) -> usize {
        let Scope {
            variables,
            cwd,
            before,
            pushed,
        } = &self.scope;
        let variables = variables.iter();
        let variables = variables.map(|(name, variable)| name.len() + size(&variable.values));
        let folders = [cwd, before].into_iter().chain(pushed).flatten();
        let folders = folders.map(|folder| folder.as_os_str().len());
        let env = self.context.env.iter().map(String::len);
        variables.chain(folders).chain(env).sum()
    }

    /// Takes room for a text before it is made. Where there is none left, nothing more is read.
    pub(super) fn take_room(&mut self, size: usize) -> bool {
        let fits = size <= self.room;
        if fits {
            self.room -= size;
        } else {
            self.steps = STEPS;
            self.unread("too much to read".into());
        }
        fits
    }

    /// Runs `body` one level deeper, if the bounds allow it.
    pub(super) fn deeper<R>(&mut self, body: impl FnOnce(&mut Self) -> R) -> Option<R> {
        self.steps += 1;
        if self.steps.is_multiple_of(1024) && Instant::now() > self.by {
            self.steps = self.steps.max(STEPS);
        }
        if self.steps >= STEPS || self.read.acts.len() >= ACTS {
            self.unread("too much to read".into());
            return None;
        }
        if self.depth >= DEPTH {
            self.unread("nested too deep".into());
            return None;
        }
        self.depth += 1;
        let result = body(self);
        self.depth -= 1;
        Some(result)
    }

    pub(super) fn statement(&mut self, node: Node, source: &str, stdin: &Output) -> Output {
        self.deeper(|shell| shell.one(node, source, stdin))
            .unwrap_or(Output::Opaque)
    }

    fn one(&mut self, node: Node, source: &str, stdin: &Output) -> Output {
        match kind(node) {
            Kind::Command => self.command(node, source, stdin, Redirects::default()),
            Kind::Redirected => self.redirected(node, source, stdin),
            Kind::Sequence | Kind::Branch => self.sequence(node, source, stdin),
            Kind::List => self.list(node, source, stdin),
            Kind::Pipeline => self.pipeline(node, source, stdin),
            Kind::Subshell => self.subshell(|shell| shell.sequence(node, source, stdin)),
            Kind::Assignment => {
                self.assign(node, source);
                Output::Nothing
            }
            Kind::Declaration => self.declaration(node, source, stdin),
            Kind::Unset => {
                for (kind, child) in children(node) {
                    match kind {
                        Kind::VariableName => {
                            self.scope.variables.remove(text(child, source));
                            self.unset(text(child, source));
                        }
                        Kind::Token => {}
                        _ => drop(self.alternatives(child, source)),
                    }
                }
                Output::Nothing
            }
            Kind::Function => {
                let body = children(node).last().map(|(_, body)| text(body, source));
                let name = children(node).find(|(kind, _)| *kind == Kind::Text);
                if let (Some(body), Some((_, name))) = (body, name) {
                    self.functions
                        .insert(text(name, source).to_owned(), body.into());
                }
                Output::Nothing
            }
            Kind::If => self.conditional(node, source, stdin),
            Kind::Case => {
                let mut output = Output::Nothing;
                for (kind, child) in children(node) {
                    let next = if kind == Kind::CaseItem {
                        self.branch(|shell| shell.sequence(child, source, stdin))
                    } else {
                        self.statement(child, source, stdin)
                    };
                    output = output.then(next);
                }
                output
            }
            Kind::While => self.branch(|shell| shell.sequence(node, source, stdin)),
            Kind::For => self.for_loop(node, source, stdin),
            Kind::Error => self.broken(node, source, stdin),
            Kind::FileRedirect => {
                let mut redirects = Redirects::default();
                self.redirect(node, source, &mut redirects);
                let act = self.emptied(&redirects, &Output::Nothing);
                for (target, access) in &redirects.touches {
                    self.touch(target, *access, false, act);
                }
                self.settle(&redirects, &Output::Nothing);
                redirects.stdin.unwrap_or_default()
            }
            Kind::Substitution | Kind::Process | Kind::Expansion => {
                self.expand(node, source, true);
                Output::Nothing
            }
            Kind::Token | Kind::Text | Kind::Raw | Kind::VariableName => Output::Nothing,
            // Tests and arithmetic start nothing but what is substituted in them.
            _ => {
                self.sequence(node, source, stdin);
                Output::Nothing
            }
        }
    }

    fn sequence(&mut self, node: Node, source: &str, stdin: &Output) -> Output {
        let mut output = Output::Nothing;
        for (kind, child) in children(node) {
            if kind != Kind::Token {
                output = output.then(self.statement(child, source, stdin));
            }
        }
        output
    }

    /// `a && b || c` leans to the left, so a long list would be deep.
    fn list(&mut self, node: Node, source: &str, stdin: &Output) -> Output {
        let mut parts = Vec::new();
        let mut list = node;
        loop {
            let mut first = None;
            let mut rest = Vec::new();
            let mut otherwise = false;
            for (kind, child) in children(list) {
                match kind {
                    Kind::Token => otherwise = text(child, source) == "||",
                    _ if first.is_none() => first = Some((kind, child)),
                    _ => rest.push((otherwise, child)),
                }
            }
            parts.extend(rest.into_iter().rev());
            match first {
                Some((Kind::List, inner)) => list = inner,
                Some((_, part)) => break parts.push((false, part)),
                None => break,
            }
        }
        let mut output = Output::Nothing;
        for (otherwise, part) in parts.into_iter().rev() {
            let next = if otherwise {
                self.branch(|shell| shell.statement(part, source, stdin))
            } else {
                self.statement(part, source, stdin)
            };
            output = output.then(next);
        }
        output
    }

    pub(super) fn pipeline(&mut self, node: Node, source: &str, stdin: &Output) -> Output {
        let mut flow = None;
        for (kind, child) in children(node) {
            if kind != Kind::Token {
                flow = Some(self.statement(child, source, flow.as_ref().unwrap_or(stdin)));
            }
        }
        flow.unwrap_or_default()
    }

    fn conditional(&mut self, node: Node, source: &str, stdin: &Output) -> Output {
        let mut output = Output::Nothing;
        let mut body = Vec::new();
        let mut then = false;
        for (kind, child) in children(node) {
            match kind {
                Kind::Token => then |= text(child, source) == "then",
                Kind::Branch => {}
                _ if then => body.push(child),
                _ => output = output.then(self.statement(child, source, stdin)),
            }
        }
        let first = self.branch(|shell| {
            body.into_iter().fold(Output::Nothing, |all, child| {
                all.then(shell.statement(child, source, stdin))
            })
        });
        output = output.then(first);
        for (_, clause) in children(node).filter(|(kind, _)| *kind == Kind::Branch) {
            output = output.then(self.branch(|shell| shell.sequence(clause, source, stdin)));
        }
        output
    }

    fn for_loop(&mut self, node: Node, source: &str, stdin: &Output) -> Output {
        let mut name = None;
        let mut values = Vec::new();
        let mut body = None;
        for (kind, child) in children(node) {
            match kind {
                Kind::VariableName if name.is_none() => name = Some(text(child, source).to_owned()),
                Kind::Sequence => body = Some(child),
                Kind::Token => {}
                _ => self.fields(child, source, &mut values),
            }
        }
        let (Some(name), Some(body)) = (name, body) else {
            return Output::Nothing;
        };
        if values.is_empty() {
            values = self.look_up("@").unwrap_or_default();
            self.take_room(size(&values));
        }
        let rounds = if values.len() > ROUNDS {
            vec![values]
        } else {
            values.into_iter().map(|v| vec![v]).collect()
        };
        let mut output = Output::Nothing;
        for values in rounds {
            self.scope.variables.insert(
                name.clone(),
                Variable {
                    values,
                    array: false,
                },
            );
            output = output.then(self.branch(|shell| shell.statement(body, source, stdin)));
        }
        output
    }

    /// Reads what the tree gives of a part that is no valid syntax, or that the grammar does not know.
    fn broken(&mut self, node: Node, source: &str, stdin: &Output) -> Output {
        let whole = text(node, source).trim();
        let mut words = Vec::new();
        let near: String = whole.chars().take(40).collect();
        self.read.is_broken = true;
        self.unread(format!("a syntax error near `{near}`"));
        let mut output = Output::Nothing;
        for (kind, child) in children(node) {
            match kind {
                Kind::CommandName if words.is_empty() => self.fields(child, source, &mut words),
                Kind::Text | Kind::Quoted | Kind::Raw | Kind::AnsiC | Kind::Concatenation => {
                    self.fields(child, source, &mut words);
                }
                Kind::Variable | Kind::Expansion => self.fields(child, source, &mut words),
                _ => {
                    output = output.then(self.start(&std::mem::take(&mut words), stdin));
                    output = output.then(self.statement(child, source, stdin));
                }
            }
        }
        output.then(self.start(&words, stdin))
    }

    fn redirected(&mut self, node: Node, source: &str, stdin: &Output) -> Output {
        let mut redirects = Redirects::default();
        let mut body = None;
        for (kind, child) in children(node) {
            match kind {
                Kind::FileRedirect | Kind::Heredoc | Kind::Herestring => {
                    self.redirect(child, source, &mut redirects);
                }
                _ => body = Some((kind, child)),
            }
        }
        match body {
            Some((Kind::Command, body)) => self.command(body, source, stdin, redirects),
            body => {
                let first = self.read.acts.len();
                let output = match body {
                    Some((_, body)) => {
                        let own = redirects.stdin.take();
                        self.statement(body, source, own.as_ref().unwrap_or(stdin))
                    }
                    None => redirects.stdin.take().unwrap_or_default(),
                };
                self.finish(redirects, source, output, first)
            }
        }
    }

    fn command<'t>(
        &mut self,
        node: Node<'t>,
        source: &str,
        stdin: &Output,
        mut redirects: Redirects<'t>,
    ) -> Output {
        let mut words = Vec::new();
        let mut assignments = Vec::new();
        for (kind, child) in children(node) {
            match kind {
                Kind::Assignment => assignments.push(child),
                Kind::FileRedirect | Kind::Heredoc | Kind::Herestring => {
                    self.redirect(child, source, &mut redirects);
                }
                Kind::Token if text(child, source) == "$" => {}
                _ => self.fields(child, source, &mut words),
            }
        }
        for word in std::mem::take(&mut redirects.words) {
            self.fields(word, source, &mut words);
        }
        let first = self.read.acts.len();
        let own = redirects.stdin.take();
        let stdin = own.as_ref().unwrap_or(stdin);
        let output = if assignments.is_empty() {
            self.start(&words, stdin)
        } else {
            self.locally(|shell| {
                for assignment in assignments {
                    shell.assign(assignment, source);
                    shell.export_name(assignment, source);
                }
                shell.start(&words, stdin)
            })
        };
        self.finish(redirects, source, output, first)
    }

    /// `export A=1`; without a name it prints all variables.
    fn declaration(&mut self, node: Node, source: &str, stdin: &Output) -> Output {
        let (mut words, mut sets) = (Vec::new(), false);
        let mut keyword = "";
        for (kind, child) in children(node) {
            let is_flag = |word: &Value| word.text.starts_with('-') && word.text.contains('x');
            let exports = keyword == "export" || words.iter().any(is_flag);
            match kind {
                Kind::Token => keyword = text(child, source),
                Kind::Assignment | Kind::VariableName => {
                    sets = true;
                    if kind == Kind::Assignment {
                        self.assign(child, source);
                    }
                    if exports {
                        self.export_name(child, source);
                    }
                }
                _ => {
                    let from = words.len();
                    self.fields(child, source, &mut words);
                    // `export "A=1"` is a word to the grammar.
                    let is_name =
                        |name: &str| !name.contains(|c: char| !c.is_alphanumeric() && c != '_');
                    for word in &words[from..] {
                        if let Some((name, value)) = word.text.split_once('=')
                            && is_name(name)
                        {
                            sets = true;
                            self.set(name, word.with(value));
                            if exports {
                                self.export(name, value);
                            }
                        }
                    }
                }
            }
        }
        if sets {
            return Output::Nothing;
        }
        self.push_act(keyword, &words, stdin.fed());
        Output::Opaque
    }

    /// What is started from now on gets this variable.
    fn export_name(&mut self, node: Node, source: &str) {
        let name = children(node).find(|(kind, _)| *kind == Kind::VariableName);
        let name = text(name.map_or(node, |(_, name)| name), source);
        let variable = self.scope.variables.get(name);
        if let Some(value) = variable.and_then(|it| it.values.first()).cloned() {
            self.export(name, &value.text);
        }
    }

    pub(super) fn export(&mut self, name: &str, value: &str) {
        const RUNS: &str = "GIT_SSH_COMMAND GIT_SSH GIT_EXTERNAL_DIFF GIT_PAGER GIT_EDITOR GIT_SEQUENCE_EDITOR \
            GIT_ASKPASS SSH_ASKPASS PAGER MANPAGER EDITOR VISUAL PROMPT_COMMAND LESSOPEN RSYNC_RSH BROWSER";
        if one_of(name, RUNS) {
            self.within(name, |shell| {
                shell.subshell(|shell| shell.script(value, &Output::Nothing))
            });
        }
        if self.forget_exported(name) && self.take_room(name.len() + value.len()) {
            self.context.env.push(format!("{name}={value}"));
        }
    }

    /// What is started from now on does not get this variable.
    pub(super) fn unset(&mut self, name: &str) {
        if self.forget_exported(name) && self.take_room(name.len()) {
            self.context.env.push(format!("-u {name}"));
        }
    }

    /// Returns false where there is no room left: looking through many variables for each of many takes long.
    fn forget_exported(&mut self, name: &str) -> bool {
        if !self.take_room(self.context.env.len()) {
            return false;
        }
        let is_it =
            |it: &String| it.strip_prefix("-u ").unwrap_or(it).split('=').next() == Some(name);
        self.context.env.retain(|it| !is_it(it));
        true
    }

    pub(super) fn set(&mut self, name: impl Into<String>, value: Value) {
        self.scope
            .variables
            .insert(name.into(), Variable::one(value));
    }

    pub(super) fn push_act(&mut self, program: &str, args: &[Value], fed: Fed) -> usize {
        let Context { via, env, .. } = &self.context;
        let texts = via.iter().chain(env).map(String::len);
        let size = size(args) + texts.sum::<usize>() + self.cwd_length();
        let mut act = Act {
            program: program.to_owned(),
            fed,
            elevated: self.context.elevated,
            remote: self.context.remote,
            ..Act::default()
        };
        if self.take_room(size) {
            act.args = args.iter().map(Value::word).collect();
            act.cwd = self.scope.cwd.clone();
            act.env = self.context.env.clone();
            act.via = self.context.via.clone();
        }
        self.read.acts.push(act);
        self.read.acts.len() - 1
    }

    fn cwd_length(&self) -> usize {
        let cwd = self.scope.cwd.as_ref();
        cwd.map_or(0, |cwd| cwd.as_os_str().len())
    }

    /// The path that a word names. None for what is no path of this machine.
    pub(super) fn absolute(&self, word: &Value) -> Option<String> {
        let text = word.text.as_str();
        if text.is_empty() {
            return None;
        }
        if text.starts_with('/') {
            return Some(path::normal(Path::new(text)));
        }
        if word.opaque && text.starts_with(['$', '`', '{', '~']) {
            return Some(text.to_owned());
        }
        match &self.scope.cwd {
            Some(cwd) => Some(path::normal(&cwd.join(text))),
            None => Some(text.to_owned()),
        }
    }

    pub(super) fn touch(
        &mut self,
        word: &Value,
        access: Access,
        recursive: bool,
        act: Option<usize>,
    ) {
        const STREAMS: &str = "/dev/null /dev/stdin /dev/stdout /dev/stderr /dev/tty";
        // Another machine has secrets too; the rest of it is not ours.
        let foreign = self.context.remote && access != Access::Read;
        if foreign || word.text.contains("://") {
            return;
        }
        if self.read.touches.len() >= TOUCHES {
            self.unread(path::too_many_paths());
            return;
        }
        if !self.take_room(word.text.len() + self.cwd_length()) {
            return;
        }
        let Some(path) = self.absolute(word) else {
            return;
        };
        if path.starts_with("/dev/") && one_of(&path, STREAMS) || path.starts_with("/dev/fd/") {
            return;
        }
        let opaque = word.opaque || !path.starts_with('/');
        // `rm src/*` leaves an empty folder.
        let all = path.ends_with("/*") || path.ends_with("/**");
        let recursive = recursive || access == Access::Delete && all;
        self.read.touches.push(Touch {
            path,
            real: None,
            access,
            recursive,
            opaque,
            act,
        });
    }
}
