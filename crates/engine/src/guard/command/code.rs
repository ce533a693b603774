//! What a piece of Python, Perl, Ruby, JavaScript, PHP, Lua or awk does, as far as its calls have constant arguments.
//!
//! It looks for calls by their name and does not parse the language.

use std::borrow::Cow;
use std::collections::HashMap;

use super::super::act::Access::{self, Delete, Read, Write};
use super::program::{base64, hex};
use super::shell::TEXT;
use super::word::{Value, ansi_c};
use super::wrapper::{is_flag, one_of};

/// The arguments of a call are looked at up to here.
const LONG_CALL: usize = 4096;
const EFFECTS: usize = 256;
const DEPTH: usize = 12;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Language {
    Python,
    Perl,
    Ruby,
    JavaScript,
    Php,
    Lua,
    Awk,
}

/// What a piece of code does.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Effect {
    /// A line for a shell.
    Script(Value),
    Start(Vec<Value>),
    Touch(Value, Access, bool),
    /// It runs what comes from the network.
    Network,
    /// It does more than is read.
    Unread,
}

/// What a function does with its arguments.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Function {
    Start,
    Code,
    Touch(Access, bool),
    Open,
    /// The first argument, then the second.
    Two(Access, Access),
}

impl Language {
    pub(super) fn of(program: &str) -> Option<Language> {
        let name = program.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
        Some(match name {
            "python" | "pypy" | "ipython" => Language::Python,
            "perl" => Language::Perl,
            "ruby" | "jruby" => Language::Ruby,
            "node" | "nodejs" | "bun" | "deno" | "tsx" | "ts-node" => Language::JavaScript,
            "php" => Language::Php,
            "lua" | "luajit" => Language::Lua,
            "awk" | "gawk" | "mawk" | "nawk" => Language::Awk,
            _ => return None,
        })
    }

    /// The code among the arguments.
    pub(super) fn code(self, args: &[Value]) -> Option<Value> {
        let letters = match self {
            Language::Python => "c",
            Language::Perl => "eE",
            Language::Ruby | Language::Lua => "e",
            Language::JavaScript => "ep",
            Language::Php => "r",
            Language::Awk => {
                let mut value = false;
                return args
                    .iter()
                    .find(|arg| {
                        let taken = std::mem::replace(
                            &mut value,
                            matches!(arg.text.as_str(), "-F" | "-v" | "-f"),
                        );
                        !taken && !is_flag(&arg.text)
                    })
                    .cloned();
            }
        };
        let mut code: Option<Value> = None;
        let mut rest = args.iter();
        while let Some(arg) = rest.next() {
            let long = matches!(arg.text.as_str(), "--eval" | "--print" | "eval" | "--run");
            let short = is_flag(&arg.text)
                && !arg.text.starts_with("--")
                && !arg.text.starts_with("-M")
                && arg.text.ends_with(|c| letters.contains(c));
            if !(short || long && self == Language::JavaScript) {
                if !is_flag(&arg.text) {
                    break;
                }
                continue;
            }
            let Some(more) = rest.next() else { break };
            code = Some(match code {
                Some(all) => Value {
                    text: format!("{}\n{}", all.text, more.text),
                    opaque: all.opaque || more.opaque,
                    network: all.network || more.network,
                    ..all
                },
                None => more.clone(),
            });
            if self == Language::Python {
                break;
            }
        }
        code
    }

    pub(super) fn via(self, program: &str) -> String {
        let flag = match self {
            Language::Python => " -c",
            Language::Php => " -r",
            Language::Awk => "",
            _ => " -e",
        };
        format!("{program}{flag}")
    }

    fn function(self, path: &str, code: &str) -> Option<Function> {
        let name = path.rsplit(['.', ':', '>']).next().unwrap_or(path);
        let children = ["child_process", "execa", "Bun."];
        match (self, name) {
            (Language::Python, "exec" | "eval") => return Some(Function::Code),
            // A regular expression has `exec` too.
            (Language::JavaScript, "exec" | "spawn")
                if !children.iter().any(|one| code.contains(one)) =>
            {
                return None;
            }
            (Language::JavaScript, "run" | "call" | "move" | "copy") => return None,
            _ => {}
        }
        // A name alone stands for it after any dot, a path for itself.
        let row = FUNCTIONS
            .iter()
            .find(|(names, _)| one_of(name, names) || path != name && one_of(path, names));
        let function = row.map(|(_, function)| *function)?;
        let below = matches!(name, "rm" | "rmSync" | "rmdirSync") && code.contains("recursive");
        Some(if below {
            Function::Touch(Delete, true)
        } else {
            function
        })
    }
}

static FUNCTIONS: &[(&str, Function)] = &[
    (
        "system popen shell_exec passthru proc_open getoutput getstatusoutput check_call check_output Popen \
         os.execute capture2 capture2e capture3 popen3 execvp execv execve execvpe execlp execl spawnlp spawnvp \
         create_subprocess_shell create_subprocess_exec pcntl_exec execSync execFileSync spawnSync execFile \
         subprocess.run sp.run subprocess.call sp.call exec spawn",
        Function::Start,
    ),
    ("eval Function", Function::Code),
    (
        "rmtree rm_rf rm_r remove_tree remove_dir remove_entry remove_entry_secure rimraf rimrafSync removeSync emptyDirSync emptyDir",
        Function::Touch(Delete, true),
    ),
    (
        "rmSync fs.rm FileUtils.rm rmdirSync unlink unlinkSync rmdir removedirs os.remove fs.remove Deno.remove \
         File.delete Dir.delete",
        Function::Touch(Delete, false),
    ),
    ("open fopen", Function::Open),
    (
        "writeFileSync writeFile appendFileSync appendFile write_text write_bytes file_put_contents \
         createWriteStream truncateSync truncate chmod chown chmodSync mkdir makedirs mkdirSync mkdir_p touch \
         writeTextFile writeTextFileSync File.write IO.write Bun.write",
        Function::Touch(Write, false),
    ),
    (
        "readFileSync readFile read_text read_bytes file_get_contents createReadStream readTextFile \
         readTextFileSync readfile dotenv_values File.read IO.read File.readlines IO.readlines File.foreach",
        Function::Touch(Read, false),
    ),
    (
        "listdir scandir readdirSync os.walk",
        Function::Touch(Access::List, false),
    ),
    (
        "shutil.move os.rename os.replace renameSync rename FileUtils.mv",
        Function::Two(Delete, Write),
    ),
    (
        "shutil.copy copy2 copyfile copytree copyFileSync cpSync copySync FileUtils.cp symlink",
        Function::Two(Read, Write),
    ),
];

/// What a piece of code does.
pub(super) fn effects(language: Language, code: &str) -> Vec<Effect> {
    let Some(code) = by_full_names(language, code) else {
        return vec![Effect::Unread];
    };
    let mut scan = Scan::new(language, &code, 0, TEXT);
    scan.run();
    scan.effects
}

/// `import x as y` undone, and `glob "…"` of Perl is its pattern. None if it grows too long.
fn by_full_names(language: Language, code: &str) -> Option<Cow<'_, str>> {
    let mut code = Cow::Borrowed(code);
    let homes = r#"process.env.HOME os.environ['HOME'] os.environ["HOME"] ENV['HOME'] ENV["HOME"]"#;
    for home in homes.split(' ') {
        if language != Language::Perl && code.contains(home) {
            code = code.replace(home, "'~'").into();
        }
    }
    match language {
        Language::Perl if code.contains("glob") => {
            code = code.replace("glob ", "").replace("glob(", "(").into();
        }
        Language::Python if code.contains(" as ") => {
            let text = code.clone();
            let words: Vec<&str> = text.split([' ', '\n', ';', ',']).collect();
            for names in words.windows(3).filter(|names| names[1] == "as") {
                let start =
                    |at: usize| !code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '.');
                let short = format!("{}.", names[2]);
                let found: Vec<usize> = code.match_indices(&short).map(|(at, _)| at).collect();
                if code.len() + found.len() * names[0].len() > TEXT {
                    return None;
                }
                for at in found
                    .into_iter()
                    .rev()
                    .filter(|at| start(*at))
                    .collect::<Vec<_>>()
                {
                    code.to_mut()
                        .replace_range(at..at + names[2].len(), names[0]);
                }
            }
        }
        _ => {}
    }
    Some(code)
}

struct Scan<'c> {
    language: Language,
    code: &'c str,
    constants: HashMap<&'c str, Value>,
    /// The values that a variable of a loop takes.
    loops: HashMap<&'c str, Vec<Value>>,
    /// The path of the last `Path("…")`.
    receiver: Option<Value>,
    effects: Vec<Effect>,
    level: usize,
    /// Bytes of text that can still be made.
    room: usize,
}

#[derive(Debug, Clone)]
enum Argument {
    One(Value),
    Many(Vec<Value>),
}

impl<'c> Scan<'c> {
    fn new(language: Language, code: &'c str, level: usize, room: usize) -> Self {
        Self {
            language,
            code,
            constants: HashMap::new(),
            loops: HashMap::new(),
            receiver: None,
            effects: Vec::new(),
            level,
            room,
        }
    }

    fn run(&mut self) {
        let mut at = 0;
        while at < self.code.len() {
            if self.room == 0 || self.effects.len() >= EFFECTS {
                self.effects.push(Effect::Unread);
                break;
            }
            at = self.step(at);
        }
    }

    /// The value of a constant, as long as there is room for it.
    fn constant(&mut self, name: &str) -> Option<Value> {
        let value = self.constants.get(name)?;
        let room = self.room.checked_sub(value.text.len() + 8);
        self.room = room.unwrap_or(0);
        room.and_then(|_| self.constants.get(name).cloned())
    }

    fn byte(&self, at: usize) -> u8 {
        self.code.as_bytes().get(at).copied().unwrap_or(0)
    }

    fn step(&mut self, at: usize) -> usize {
        use Language::{Awk, JavaScript, Lua, Perl, Php, Python, Ruby};
        let rest = &self.code.as_bytes()[at..];
        let line = || {
            rest.iter()
                .position(|c| *c == b'\n')
                .map_or(self.code.len(), |end| at + end)
        };
        match rest[0] {
            b'#' if matches!(self.language, Python | Perl | Ruby | Awk | Php)
                && rest.get(1) != Some(&b'{') =>
            {
                line()
            }
            b'/' if rest.starts_with(b"//") && matches!(self.language, JavaScript | Php) => line(),
            b'-' if rest.starts_with(b"--") && self.language == Lua => line(),
            b'`' if matches!(self.language, Perl | Ruby | Php) => {
                let (value, end) = self.string(at);
                self.effects.push(Effect::Script(value));
                end
            }
            b'%' | b'q'
                if rest.starts_with(b"%x") || rest.starts_with(b"qx") && self.language == Perl =>
            {
                let close = match rest.get(2) {
                    Some(b'(') => ')',
                    Some(b'{') => '}',
                    Some(b'[') => ']',
                    Some(c @ (b'/' | b'!' | b'|' | b'"')) => char::from(*c),
                    _ => return at + 2,
                };
                let inner = self.code.get(at + 3..).unwrap_or_default();
                let end = inner.find(close).unwrap_or(inner.len());
                self.effects
                    .push(Effect::Script(Value::known(&inner[..end])));
                at + 3 + end
            }
            b'"' | b'\'' | b'`' => self.string(at).1,
            c if starts_name(c) => self.name(at),
            c if c < 0x80 => at + 1,
            _ => at + self.code[at..].chars().next().map_or(1, char::len_utf8),
        }
    }

    fn name(&mut self, at: usize) -> usize {
        let end = self.name_end(at);
        let code = self.code;
        let path = &code[at..end];
        let next = self.blanks(end);
        // A prefix of a string: `r"…"`.
        if path.len() <= 2
            && matches!(self.byte(end), b'"' | b'\'')
            && self.language == Language::Python
        {
            return self.string(end).1;
        }
        if self.byte(next) == b'=' && !matches!(self.byte(next + 1), b'=' | b'>' | b'~') {
            let (value, _) = self.value(self.blanks(next + 1));
            if let Argument::One(value) = value
                && !value.opaque
            {
                self.constants.insert(path, value);
            }
            return next + 1;
        }
        if path == "for" {
            self.loop_over(next);
            return end;
        }
        let call = self.byte(next) == b'(';
        let bare = !call
            && next > end
            && matches!(
                self.language,
                Language::Perl | Language::Ruby | Language::Php
            )
            && matches!(self.byte(next), b'"' | b'\'' | b'[');
        if !call && !bare {
            return end;
        }
        let Some(function) = self.language.function(path, code) else {
            if call
                && matches!(
                    path.rsplit('.').next(),
                    Some("Path" | "PosixPath" | "File" | "Pathname" | "file")
                )
            {
                let (arguments, _) = self.arguments(next + 1, true);
                self.receiver = text_at(&arguments, 0);
            } else if call && path.ends_with("Path.home") {
                self.receiver = text_at(&[self.value(at).0], 0);
            }
            return if call { next + 1 } else { end };
        };
        let (mut arguments, _) = self.arguments(if call { next + 1 } else { next }, call);
        let owner = path.rsplit_once('.').map_or("", |(owner, _)| owner);
        let receiver = self.constant(owner).or_else(|| {
            let method = at > 0 && self.byte(at - 1) == b'.';
            self.receiver.clone().filter(|_| method)
        });
        let deletes = matches!(function, Function::Touch(Delete, _));
        let known = receiver.clone().or_else(|| text_at(&arguments, 0));
        let listed = (deletes && known.is_none_or(|path| path.opaque)).then(|| self.listed());
        let receiver = listed.flatten().or(receiver);
        let first = text_at(&arguments, 0).filter(|first| first.opaque);
        match first.and_then(|first| self.loops.get(&*first.text).cloned()) {
            Some(values) => {
                for value in values {
                    arguments[0] = Argument::One(value);
                    self.apply(function, &arguments, receiver.clone());
                }
            }
            None => self.apply(function, &arguments, receiver),
        }
        if call { next + 1 } else { end }
    }

    /// `for f in ["a", "b"]:`, `for (const f of ["a", "b"])`
    fn loop_over(&mut self, at: usize) {
        let code = self.code;
        let word = [" in ", " of "][usize::from(self.language == Language::JavaScript)];
        let head = code.get(at..code.len().min(at + 128)).unwrap_or_default();
        if let Some((names, _)) = head.split_once(word)
            && let (Argument::Many(values), _) = self.value(at + names.len() + word.len())
        {
            let name = names.rsplit([' ', '(']).next().unwrap_or_default();
            self.loops.insert(name, values);
        }
    }

    /// The files that a loop goes over, if it does not choose: `for p in Path("src").glob("*")`.
    fn listed(&mut self) -> Option<Value> {
        let mut lists =
            "glob( globSync( readdirSync( listdir( scandir( os.walk( iterdir(".split(' ');
        let (list, at) = lists.find_map(|list| Some((list, self.code.find(list)?)))?;
        let before = self.code[..at].trim_end_matches(['.', 'r', 'i']);
        let folder = before
            .strip_suffix(')')
            .and_then(|it| it.rsplit_once("Path("));
        let folder = folder.map(|(_, it)| it.trim_matches(['"', '\'']).to_owned());
        let first = text_at(&self.arguments(at + list.len(), true).0, 0).map(|it| it.text);
        let all = (!list.contains("glob")).then(|| "*".to_owned());
        let parts: Vec<String> = folder.into_iter().chain(first).chain(all).collect();
        (!self.code.contains("if ")).then(|| Value::known(parts.join("/")))
    }

    fn apply(&mut self, function: Function, arguments: &[Argument], receiver: Option<Value>) {
        let first = text_at(arguments, 0);
        let lengths = receiver.iter().chain(&first).map(|it| it.text.len());
        self.room = self.room.saturating_sub(lengths.sum());
        match function {
            Function::Start => self.start(arguments),
            Function::Code => match first {
                Some(code) if !code.opaque => {
                    if self.level < DEPTH {
                        let mut inner =
                            Scan::new(self.language, &code.text, self.level + 1, self.room);
                        inner.run();
                        self.room = inner.room;
                        self.effects.extend(inner.effects);
                    }
                }
                _ => {
                    let mut sources =
                        "urlopen requests.get urllib http.get https.get fetch( open-uri LWP"
                            .split(' ');
                    if sources.any(|source| self.code.contains(source)) {
                        self.effects.push(Effect::Network);
                    }
                }
            },
            Function::Touch(access, recursive) => {
                // A method of `Path("…")` has the path before the name.
                if let Some(path) = receiver.or(first) {
                    self.effects.push(Effect::Touch(path, access, recursive));
                }
            }
            Function::Two(one, two) => {
                for (path, access) in [
                    (receiver.clone().or(first), one),
                    (text_at(arguments, 1), two),
                ] {
                    if let Some(path) = path {
                        self.effects.push(Effect::Touch(path, access, false));
                    }
                }
            }
            Function::Open => self.open(arguments, receiver),
        }
    }

    fn start(&mut self, arguments: &[Argument]) {
        let mut words = Vec::new();
        for (at, argument) in arguments.iter().enumerate() {
            match argument {
                Argument::Many(list) if at == 0 => {
                    words.extend(list.iter().cloned());
                    break;
                }
                Argument::Many(list) => {
                    // `execvp("rm", ["rm", …])` names the program twice.
                    let twice = list.first().map(|value| &value.text)
                        == words.first().map(|value: &Value| &value.text);
                    words.extend(list.iter().skip(usize::from(twice)).cloned());
                    break;
                }
                Argument::One(value) if at == 0 || !value.opaque => words.push(value.clone()),
                Argument::One(_) => break,
            }
        }
        match words.len() {
            0 => {}
            1 if matches!(arguments[0], Argument::One(_)) => {
                self.effects.extend(words.pop().map(Effect::Script));
            }
            _ => self.effects.push(Effect::Start(words)),
        }
    }

    fn open(&mut self, arguments: &[Argument], receiver: Option<Value>) {
        let (mut path, mut mode) = match receiver {
            Some(path) => (Some(path), text_at(arguments, 0)),
            None => (text_at(arguments, 0), text_at(arguments, 1)),
        };
        if self.language == Language::Perl {
            // open(FH, ">", "f") or open(FH, ">f")
            (path, mode) = (text_at(arguments, 2), mode);
            if path.is_none()
                && let Some(both) = &mode
            {
                let at = both
                    .text
                    .find(|c| !matches!(c, '>' | '<' | '+' | '|' | ' '))
                    .unwrap_or(both.text.len());
                path = Some(Value {
                    text: both.text[at..].trim_end_matches('|').to_owned(),
                    ..both.clone()
                });
            }
        }
        let Some(path) = path else { return };
        let mode = mode.map_or(String::new(), |mode| mode.text);
        if mode.contains('|') && self.language == Language::Perl {
            self.effects.push(Effect::Script(path));
            return;
        }
        let write = mode.contains('>') || mode.len() <= 4 && mode.contains(['w', 'a', 'x', '+']);
        self.effects
            .push(Effect::Touch(path, if write { Write } else { Read }, false));
    }

    fn blanks(&self, at: usize) -> usize {
        let rest = self.code.as_bytes().get(at..).unwrap_or_default();
        at + rest.iter().take_while(|c| c.is_ascii_whitespace()).count()
    }

    /// `a.b`, `a::b`, `$a->b`
    fn name_end(&self, at: usize) -> usize {
        let bytes = self.code.as_bytes();
        let mut end = at + 1;
        while end < bytes.len() {
            let ahead = |n: usize| bytes.get(end + n).is_some_and(|c| starts_name(*c));
            match bytes[end] {
                c if starts_name(c) || c.is_ascii_digit() => end += 1,
                b'.' if ahead(1) => end += 1,
                b':' if bytes.get(end + 1) == Some(&b':') && ahead(2) => end += 2,
                b'-' if bytes.get(end + 1) == Some(&b'>') && ahead(2) => end += 2,
                _ => break,
            }
        }
        end
    }

    /// The string that begins at `at`, and where it ends.
    fn string(&self, at: usize) -> (Value, usize) {
        let code = self.code;
        let quote = &code[at..at + 1];
        let triple = quote.repeat(3);
        let mark = if self.language == Language::Python && code[at..].starts_with(&triple) {
            triple.as_str()
        } else {
            quote
        };
        let start = at + mark.len();
        let bytes = code.as_bytes();
        let mut end = start;
        while end < bytes.len() && !code.as_bytes()[end..].starts_with(mark.as_bytes()) {
            end += if bytes[end] == b'\\' { 2 } else { 1 };
        }
        let mut stop = end.min(bytes.len());
        while !code.is_char_boundary(stop) {
            stop += 1;
        }
        let inner = code.get(start..stop).unwrap_or_default();
        let prefix = at
            .checked_sub(1)
            .map_or(0, |at| bytes[at].to_ascii_lowercase());
        let python = self.language == Language::Python;
        let opaque = match self.language {
            Language::Python => {
                inner.contains('{')
                    && (prefix == b'f' || at > 1 && bytes[at - 2].eq_ignore_ascii_case(&b'f'))
            }
            Language::JavaScript => quote == "`" && inner.contains("${"),
            Language::Ruby => quote != "'" && inner.contains("#{"),
            Language::Perl | Language::Php => quote != "'" && inner.contains(['$', '@']),
            Language::Lua | Language::Awk => false,
        };
        let raw = python && prefix == b'r'
            || quote == "'" && matches!(self.language, Language::Perl | Language::Php);
        let text = if raw || !inner.contains('\\') {
            inner.to_owned()
        } else {
            ansi_c(inner)
        };
        let value = if opaque {
            Value::unknown(text)
        } else {
            Value::known(text)
        };
        (value, (stop + mark.len()).min(bytes.len()).max(at + 1))
    }

    /// The arguments from `at` on, up to the closing bracket.
    fn arguments(&mut self, at: usize, closed: bool) -> (Vec<Argument>, usize) {
        let mut found = Vec::new();
        let limit = (at + LONG_CALL).min(self.code.len());
        let mut at = self.blanks(at);
        while at < limit && found.len() < 64 {
            match self.byte(at) {
                b')' | b']' | b'}' => return (found, at + 1),
                b';' | b'\n' if !closed => break,
                b',' => at = self.blanks(at + 1),
                _ => {
                    let (argument, end) = self.value(at);
                    found.push(argument);
                    at = self.blanks(end.max(at + 1));
                }
            }
        }
        (found, at)
    }

    /// One argument: terms that are joined, up to a comma or a closing bracket.
    fn value(&mut self, at: usize) -> (Argument, usize) {
        self.level += 1;
        let result = if self.level > DEPTH {
            (Argument::One(Value::unknown("")), at + 1)
        } else {
            self.terms(at)
        };
        self.level -= 1;
        result
    }

    fn terms(&mut self, start: usize) -> (Argument, usize) {
        let limit = (start + LONG_CALL).min(self.code.len());
        let mut at = start;
        let mut all: Option<Value> = None;
        let add = |all: &mut Option<Value>, value: Value| match all {
            Some(text) => {
                text.text.push_str(&value.text);
                text.opaque |= value.opaque;
            }
            None => *all = Some(value),
        };
        while at < limit {
            match self.byte(at) {
                b',' | b')' | b']' | b'}' | b';' => break,
                b'\n' if all.is_some() => break,
                b'"' | b'\'' | b'`' => {
                    let (value, end) = self.string(at);
                    add(&mut all, value);
                    at = end;
                }
                b'[' | b'(' | b'{' if all.is_none() => {
                    let (list, end) = self.arguments(at + 1, true);
                    let values = list.into_iter().flat_map(|one| match one {
                        Argument::One(value) => vec![value],
                        Argument::Many(values) => values,
                    });
                    return (Argument::Many(values.collect()), end);
                }
                c if starts_name(c) => {
                    let end = self.name_end(at);
                    let name = &self.code[at..end];
                    let next = self.blanks(end);
                    let prefix = name.len() <= 2 && matches!(self.byte(end), b'"' | b'\'');
                    if prefix {
                        at = end;
                    } else if self.byte(next) == b'(' {
                        let (arguments, end) = self.arguments(next + 1, true);
                        let method = at > start && self.byte(at - 1) == b'.';
                        let value = made(name, &arguments);
                        if !method {
                            add(&mut all, value);
                        } else if let ("joinpath", Some(part)) = (name, text_at(&arguments, 0)) {
                            add(&mut all, part.with(format!("/{}", part.text)));
                        } else if !value.opaque && all.as_ref().is_none_or(|all| all.opaque) {
                            // `__import__("base64").b64decode("…")`
                            all = Some(value);
                        }
                        at = end;
                    } else if self.byte(next) == b'=' && self.byte(next + 1) != b'=' {
                        // The name of an argument.
                        at = self.blanks(next + 1);
                    } else {
                        let method = at > start && self.byte(at - 1) == b'.';
                        if !method {
                            add(
                                &mut all,
                                self.constant(name).unwrap_or_else(|| Value::unknown(name)),
                            );
                        }
                        at = end;
                    }
                }
                b'+' | b'.' | b' ' | b'\n' | b'\t' | b'\r' | b'\\' => at += 1,
                c if c < 0x80 => {
                    add(&mut all, Value::unknown(char::from(c).to_string()));
                    at += 1;
                }
                _ => at += self.code[at..].chars().next().map_or(1, char::len_utf8),
            }
        }
        (Argument::One(all.unwrap_or_else(|| Value::unknown(""))), at)
    }
}

fn starts_name(c: u8) -> bool {
    c.is_ascii_alphabetic() || c == b'_' || c == b'$'
}

fn text_at(arguments: &[Argument], at: usize) -> Option<Value> {
    match arguments.get(at)? {
        Argument::One(value) => Some(value.clone()),
        Argument::Many(values) => values.first().cloned(),
    }
}

/// What a call in an argument gives.
fn made(name: &str, arguments: &[Argument]) -> Value {
    let first = text_at(arguments, 0);
    let decoded = |decode: fn(&str) -> Option<String>| {
        first
            .as_ref()
            .filter(|value| !value.opaque)
            .and_then(|value| decode(&value.text))
            .map(Value::known)
    };
    let value = match name.rsplit(['.', ':']).next().unwrap_or(name) {
        "expanduser" | "Path" | "abspath" | "realpath" | "normpath" | "resolve" | "str"
        | "String" | "split" | "bytes" | "compile" | "File" | "expand_path" | "qw" | "glob"
        | "iglob" => first.clone(),
        "home" | "homedir" => Some(Value::known("~")),
        "getenv" | "get" if first.as_ref().is_some_and(|name| name.text == "HOME") => {
            Some(Value::known("~"))
        }
        "gettempdir" | "tmpdir" => Some(Value::known("/tmp")),
        "mkdtemp" | "mkdtempSync" | "mktmpdir" => Some(Value::known("/tmp/tmp.d")),
        "join" if name != "join" => {
            let parts = (0..arguments.len()).filter_map(|at| text_at(arguments, at));
            parts.reduce(|all, part| {
                let text = if part.text.starts_with('/') {
                    part.text
                } else {
                    format!("{}/{}", all.text, part.text)
                };
                Value {
                    text,
                    opaque: all.opaque || part.opaque,
                    ..all
                }
            })
        }
        "b64decode" | "atob" | "decode64" | "base64_decode" | "decode_base64" => decoded(base64),
        "fromhex" | "unhexlify" => decoded(hex),
        "from" if text_at(arguments, 1).is_some_and(|kind| kind.text == "base64") => {
            decoded(base64)
        }
        _ => None,
    };
    value.unwrap_or_else(|| Value::unknown(format!("{name}(…)")))
}
