//! Expands the words of a script as the shell would, as far as their parts are constant.

use std::path::PathBuf;

use tree_sitter::Node;

use super::super::act::Word;
use super::shell::{Output, Shell, Variable};
use super::syntax::{Kind, children, kind, text};

/// Stands where an unquoted expansion has a blank: the word is split there.
const SPLIT: char = '\u{1f}';
/// As many words can come of one: more are not told apart.
const MANY: usize = 64;

/// The room that values take: empty ones take some too.
pub(super) fn size(values: &[Value]) -> usize {
    values.iter().map(|value| value.text.len() + 8).sum()
}

/// A word, or the value of a variable.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Value {
    pub(super) text: String,
    /// A part of it is not known and stands as it is written.
    pub(super) opaque: bool,
    /// A part of it is what a network program prints.
    pub(super) network: bool,
    /// It has an unquoted `{`.
    pub(super) braces: bool,
}

impl Value {
    pub(super) fn known(text: impl Into<String>) -> Value {
        Value {
            text: text.into(),
            ..Value::default()
        }
    }

    pub(super) fn unknown(text: impl Into<String>) -> Value {
        Value {
            text: text.into(),
            opaque: true,
            ..Value::default()
        }
    }

    /// Another text, as far known as this one.
    pub(super) fn with(&self, text: impl Into<String>) -> Value {
        let (opaque, network) = (self.opaque, self.network);
        Value {
            text: text.into(),
            opaque,
            network,
            braces: false,
        }
    }

    /// What stands in a script without quotes.
    pub(super) fn unquoted(written: &str) -> Value {
        let text = if written.contains('\\') {
            unescape(written, |_| true)
        } else {
            written.to_owned()
        };
        Value {
            braces: text.contains('{'),
            text,
            ..Value::default()
        }
    }

    pub(super) fn word(&self) -> Word {
        Word {
            text: self.text.clone(),
            opaque: self.opaque,
        }
    }

    /// A stream with this text.
    pub(super) fn printed(self) -> Output {
        if self.network {
            Output::Network
        } else {
            Output::Text(self.text, self.opaque)
        }
    }

    fn push(&mut self, more: &Value) {
        self.text.push_str(&more.text);
        self.opaque |= more.opaque;
        self.network |= more.network;
        self.braces |= more.braces;
    }

    fn split_into(self, shell: &mut Shell, fields: &mut Vec<Value>) {
        let texts = if self.braces {
            shell.braces(&self.text)
        } else {
            vec![]
        };
        let mut push = |text: &str| {
            for part in text.split(SPLIT).filter(|part| !part.is_empty()) {
                fields.push(Value {
                    text: part.to_owned(),
                    braces: false,
                    ..self
                });
            }
        };
        if !texts.is_empty() {
            texts.iter().for_each(|text| push(text));
        } else if self.text.contains(SPLIT) {
            push(&self.text);
        } else {
            fields.push(self);
        }
    }
}

impl Shell<'_> {
    /// Adds the words that one word of the script becomes.
    pub(super) fn fields(&mut self, node: Node, source: &str, into: &mut Vec<Value>) {
        for mut value in self.expand(node, source, false) {
            self.tilde(&mut value, text(node, source));
            value.split_into(self, into);
        }
    }

    /// The one text that a word becomes where the shell does not split.
    pub(super) fn single(&mut self, node: Node, source: &str) -> Value {
        self.alternatives(node, source)
            .into_iter()
            .next()
            .unwrap_or_default()
    }

    pub(super) fn alternatives(&mut self, node: Node, source: &str) -> Vec<Value> {
        let mut values = self.expand(node, source, true);
        for value in &mut values {
            self.tilde(value, text(node, source));
        }
        values
    }

    fn tilde(&self, value: &mut Value, written: &str) {
        // The home of another machine is not ours.
        if !written.starts_with('~') || self.context.remote {
            return;
        }
        let end = value.text.find('/').unwrap_or(value.text.len());
        let folder = match &value.text[..end] {
            "~" => Some(self.home.to_path_buf()),
            "~+" => self.scope.cwd.clone(),
            "~-" => self.scope.before.clone(),
            "~root" => Some(PathBuf::from("/root")),
            _ => None,
        };
        match folder {
            Some(folder) => value.text.replace_range(..end, &folder.to_string_lossy()),
            None => value.opaque = true,
        }
    }

    /// The values that a node can have: more than one if the script can go more than one way.
    pub(super) fn expand(&mut self, node: Node, source: &str, quoted: bool) -> Vec<Value> {
        let values = self.deeper(|shell| shell.expand_one(node, source, quoted));
        match values {
            Some(values) if self.take_room(size(&values)) => values,
            _ => vec![Value::unknown(text(node, source))],
        }
    }

    fn expand_one(&mut self, node: Node, source: &str, quoted: bool) -> Vec<Value> {
        let written = text(node, source);
        match kind(node) {
            Kind::Text | Kind::VariableName => vec![Value::unquoted(written)],
            Kind::Raw => {
                let inner = written
                    .strip_prefix('\'')
                    .and_then(|rest| rest.strip_suffix('\''));
                vec![Value::known(inner.unwrap_or(written))]
            }
            Kind::AnsiC => {
                let inner = written
                    .strip_prefix("$'")
                    .and_then(|rest| rest.strip_suffix('\''));
                vec![Value::known(ansi_c(inner.unwrap_or(written)))]
            }
            Kind::Quoted if written.starts_with('$') => match children(node).last() {
                Some((Kind::Quoted, string)) => self.expand(string, source, true),
                _ => vec![Value::unknown(written)],
            },
            Kind::Quoted => self.joined(node, source, true),
            Kind::Concatenation | Kind::CommandName => self.joined(node, source, quoted),
            Kind::Variable => self.named(
                written.strip_prefix('$').unwrap_or_default(),
                written,
                quoted,
            ),
            Kind::Expansion => self.expansion(node, source, quoted),
            Kind::Substitution => self.substitution(node, source, quoted),
            Kind::Process => vec![self.process(node, source)],
            Kind::Token | Kind::StringContent => vec![Value::known(written)],
            Kind::Array => {
                let mut values = Vec::new();
                for (_, child) in children(node).filter(|(kind, _)| *kind != Kind::Token) {
                    self.fields(child, source, &mut values);
                }
                values
            }
            _ => {
                // Arithmetic, or what the grammar does not know. It may hold substitutions.
                for (_, child) in children(node) {
                    self.statement(child, source, &Output::Nothing);
                }
                vec![Value::unknown(written)]
            }
        }
    }

    /// Children and the text between them. The grammar leaves parts of strings without a node.
    fn joined(&mut self, node: Node, source: &str, quoted: bool) -> Vec<Value> {
        let string = kind(node) == Kind::Quoted;
        let heredoc = kind(node) == Kind::HeredocBody;
        let literal = |from: usize, to: usize| {
            let written = source.get(from..to.min(source.len())).unwrap_or_default();
            let text = match written.contains('\\') {
                true => unescape(written, |c| {
                    matches!(c, '$' | '`' | '\\' | '\n') || c == '"' && string
                }),
                false => written.to_owned(),
            };
            Value::known(text)
        };
        let (mut at, end) = match string {
            true => (node.start_byte() + 1, node.end_byte().saturating_sub(1)),
            false => (node.start_byte(), node.end_byte()),
        };
        let mut all = vec![Value::default()];
        for (kind, child) in children(node) {
            if string && kind == Kind::Token && text(child, source) == "\"" {
                continue;
            }
            if (string || heredoc) && kind == Kind::StringContent {
                continue;
            }
            if at < child.start_byte() {
                self.append(&mut all, &[literal(at, child.start_byte())]);
            }
            let values = self.expand(child, source, quoted);
            self.append(&mut all, &values);
            at = child.end_byte();
        }
        if at < end {
            self.append(&mut all, &[literal(at, end)]);
        }
        all
    }

    /// Each of `all` with each of `more` behind it.
    fn append(&mut self, all: &mut Vec<Value>, more: &[Value]) {
        let more = if all.len() * more.len() > MANY {
            all.iter_mut().for_each(|value| value.opaque = true);
            &more[..1]
        } else {
            more
        };
        let made = size(all) * more.len().saturating_sub(1) + size(more) * all.len();
        if !self.take_room(made) {
            all.iter_mut().for_each(|value| value.opaque = true);
            return;
        }
        match more {
            [] => {}
            [one] => all.iter_mut().for_each(|value| value.push(one)),
            _ => {
                *all = all
                    .iter()
                    .flat_map(|value| more.iter().map(move |next| concat(value.clone(), next)))
                    .collect();
            }
        }
    }

    /// `a{b,c}d` → `abd acd`. Nothing if there is nothing to expand.
    fn braces(&mut self, text: &str) -> Vec<String> {
        let mut done = Vec::new();
        let mut open = vec![text.to_owned()];
        while let Some(text) = open.pop() {
            match first_braces(&text) {
                Some((before, options, after))
                    if open.len() + done.len() + options.len() <= MANY
                        && self.take_room(options.len() * text.len()) =>
                {
                    open.extend(
                        options
                            .iter()
                            .rev()
                            .map(|option| format!("{before}{option}{after}")),
                    );
                }
                _ => done.push(text),
            }
        }
        if done.len() == 1 { Vec::new() } else { done }
    }

    /// The text of a here-document.
    pub(super) fn pieces(&mut self, node: Node, source: &str) -> Value {
        self.joined(node, source, true)
            .into_iter()
            .next()
            .unwrap_or_default()
    }

    pub(super) fn look_up(&self, name: &str) -> Option<Vec<Value>> {
        if let Some(variable) = self.scope.variables.get(name) {
            let values = &variable.values;
            return Some(if variable.array {
                values.iter().take(1).cloned().collect()
            } else {
                values.clone()
            });
        }
        let folder = match name {
            "HOME" => Some(self.home.to_path_buf()),
            "PWD" => self.scope.cwd.clone(),
            "OLDPWD" => self.scope.before.clone(),
            "IFS" => return Some(vec![Value::known(" ")]),
            _ => None,
        };
        folder.map(|folder| vec![Value::known(folder.to_string_lossy())])
    }

    fn named(&self, name: &str, written: &str, quoted: bool) -> Vec<Value> {
        let values = match name {
            "@" | "*" => self.scope.variables.get("@").map(|all| all.values.clone()),
            _ => self.look_up(name),
        };
        split(
            values.unwrap_or_else(|| vec![Value::unknown(written)]),
            quoted,
        )
    }

    /// `${…}`
    fn expansion(&mut self, node: Node, source: &str, quoted: bool) -> Vec<Value> {
        let written = text(node, source);
        let mut prefix = "";
        let mut operator = "";
        let mut known: Option<Vec<Value>> = None;
        let mut named = false;
        let mut operands: Vec<Value> = Vec::new();
        let mut is_read = false;
        for (kind, child) in children(node) {
            let token = text(child, source);
            match kind {
                Kind::Token if token == "${" || token == "}" => {}
                Kind::VariableName if !named => {
                    named = true;
                    known = match token {
                        "@" | "*" => self.scope.variables.get("@").map(|all| all.values.clone()),
                        name => self.look_up(name),
                    };
                }
                Kind::Subscript if !named => {
                    named = true;
                    known = self.subscript(token);
                    self.statement(child, source, &Output::Nothing);
                }
                Kind::Token if !named => prefix = token,
                Kind::Token if operator.is_empty() => {
                    operator = token;
                    let rest = source.get(child.end_byte()..node.end_byte());
                    let rest = rest.unwrap_or_default();
                    let rest = rest.strip_suffix('}').unwrap_or(rest);
                    if let Some(values) = self.operand_as_words(rest, quoted) {
                        operands = values;
                        is_read = true;
                    }
                }
                _ if is_read => {}
                Kind::Token if operator.starts_with(['/', ':']) => {}
                _ => operands.extend(self.alternatives(child, source)),
            }
        }
        let operand = |at: usize| operands.get(at).map_or("", |value| value.text.as_str());
        let unknown = || vec![Value::unknown(written)];
        let values = match (prefix, operator) {
            ("!", "") => known
                .and_then(|names| self.look_up(&names.first()?.text))
                .unwrap_or_else(unknown),
            ("", "") => known.unwrap_or_else(unknown),
            ("", ":-" | "-" | ":=" | "=") => match known {
                Some(values) if values.iter().any(|value| !value.text.is_empty()) => values,
                _ => vec![operands.iter().fold(Value::default(), concat)],
            },
            ("", ":+" | "+") => vec![operands.iter().fold(Value::default(), concat)],
            ("", ":?" | "?") => known.unwrap_or_else(unknown),
            ("", _)
                if known
                    .as_ref()
                    .is_some_and(|values| values.iter().all(|value| !value.opaque)) =>
            {
                let mut values = known.unwrap_or_default();
                for value in &mut values {
                    let found = match operator {
                        "//" => value.text.matches(operand(0)).count(),
                        _ => 0,
                    };
                    if !self.take_room(found * operand(1).len()) {
                        return unknown();
                    }
                    match edit(&value.text, operator, operand(0), operand(1)) {
                        Some(text) => value.text = text,
                        None => return unknown(),
                    }
                }
                values
            }
            _ => unknown(),
        };
        split(values, quoted)
    }

    /// `X[@]`, `X[0]`
    fn subscript(&self, written: &str) -> Option<Vec<Value>> {
        let (name, index) = written.strip_suffix(']')?.split_once('[')?;
        let values = &self.scope.variables.get(name)?.values;
        match index {
            "@" | "*" => Some(values.clone()),
            index => values
                .get(index.parse::<usize>().ok()?)
                .map(|value| vec![value.clone()]),
        }
    }

    /// Reads again what the grammar takes for text in `${x:-…}`: backquotes, process substitutions, and, between
    /// double quotes, what stands between single ones. Returns the words if the grammar does not know them.
    fn operand_as_words(&mut self, written: &str, quoted: bool) -> Option<Vec<Value>> {
        if quoted && written.contains('\'') && written.contains(['$', '`']) {
            self.subshell(|shell| shell.script(&format!("x=\"{written}\""), &Output::Nothing));
            return None;
        }
        let marks = ["`", "<(", ">("];
        if !marks.iter().any(|mark| written.contains(mark)) {
            return None;
        }
        self.subshell(|shell| {
            shell.script(&format!("x=({written})"), &Output::Nothing);
            Some(shell.scope.variables.remove("x")?.values)
        })
    }

    fn substitution(&mut self, node: Node, source: &str, quoted: bool) -> Vec<Value> {
        let written = text(node, source);
        if written.starts_with('`') {
            return self.backquoted(written, quoted);
        }
        let output = self.subshell(|shell| {
            let mut all = Output::Nothing;
            for (_, child) in children(node).filter(|(kind, _)| *kind != Kind::Token) {
                let next = shell.statement(child, source, &Output::Nothing);
                all = if all == Output::Nothing {
                    next
                } else {
                    Output::Opaque
                };
            }
            all
        });
        substituted(output, written, quoted)
    }

    /// Reads what stands between backquotes. The grammar takes two substitutions for a single one where only
    /// blanks are between them.
    fn backquoted(&mut self, written: &str, quoted: bool) -> Vec<Value> {
        let mut all = vec![Value::default()];
        for (nth, part) in split_at_backquotes(written).into_iter().enumerate() {
            let values = if nth % 2 == 1 {
                let is_escaped = |c| matches!(c, '`' | '$' | '\\') || quoted && c == '"';
                let script = unescape(part, is_escaped);
                let output = self.subshell(|shell| shell.script(&script, &Output::Nothing));
                substituted(output, &format!("`{part}`"), quoted)
            } else {
                if part.contains('\n') {
                    self.unread("a line that begins with a backquote".into());
                }
                split(vec![Value::known(part)], quoted)
            };
            self.append(&mut all, &values);
        }
        all
    }

    /// `<( )` and `>( )`: the program gets the name of a file.
    fn process(&mut self, node: Node, source: &str) -> Value {
        let stdin = if text(node, source).starts_with('>') {
            Output::Opaque
        } else {
            Output::Nothing
        };
        let output = self.subshell(|shell| {
            let mut last = Output::Opaque;
            for (_, child) in children(node).filter(|(kind, _)| *kind != Kind::Token) {
                last = shell.statement(child, source, &stdin);
            }
            last
        });
        let path = format!("/dev/fd/{}", 63_usize.saturating_sub(self.files.len()));
        let network = output == Output::Network;
        self.write_file(path.clone(), output);
        Value {
            network,
            ..Value::known(path)
        }
    }

    /// `X=value`, `X+=value`, `X[0]=value`, `X=(a b)`
    pub(super) fn assign(&mut self, node: Node, source: &str) {
        let mut name = "";
        let mut add = false;
        let mut new = Variable::one(Value::default());
        for (kind, child) in children(node) {
            match kind {
                Kind::VariableName | Kind::Subscript if name.is_empty() => {
                    name = text(child, source);
                    self.statement(child, source, &Output::Nothing);
                }
                Kind::Token => add |= text(child, source) == "+=",
                Kind::Array => {
                    new = Variable {
                        values: self.expand(child, source, true),
                        array: true,
                    }
                }
                _ => new.values = self.alternatives(child, source),
            }
        }
        if let Some((array, index)) = name.strip_suffix(']').and_then(|name| name.split_once('[')) {
            let array = self.scope.variables.entry(array.to_owned()).or_default();
            array.array = true;
            match index
                .parse::<usize>()
                .ok()
                .and_then(|index| array.values.get_mut(index))
            {
                Some(slot) => *slot = new.values.into_iter().next().unwrap_or_default(),
                None => array.values.extend(new.values),
            }
            return;
        }
        if add && let Some(mut old) = self.scope.variables.remove(name) {
            if old.array {
                old.values.extend(new.values);
            } else {
                self.append(&mut old.values, &new.values);
            }
            self.scope.variables.insert(name.to_owned(), old);
            return;
        }
        self.scope.variables.insert(name.to_owned(), new);
    }
}

fn concat(mut first: Value, next: &Value) -> Value {
    first.push(next);
    first
}

/// The values of a substitution that prints this.
fn substituted(output: Output, written: &str, quoted: bool) -> Vec<Value> {
    let values = match output {
        Output::Text(text, opaque) => {
            vec![Value {
                text: text.trim_end_matches('\n').to_owned(),
                opaque,
                ..Value::default()
            }]
        }
        Output::Names(names) => names,
        output => {
            vec![Value {
                network: output == Output::Network,
                ..Value::unknown(written)
            }]
        }
    };
    split(values, quoted)
}

/// Splits at each backquote that has no backslash before it.
fn split_at_backquotes(written: &str) -> Vec<&str> {
    let (mut parts, mut from, mut is_escaped) = (Vec::new(), 0, false);
    for (at, byte) in written.bytes().enumerate() {
        if byte == b'`' && !is_escaped {
            parts.push(&written[from..at]);
            from = at + 1;
        }
        is_escaped = byte == b'\\' && !is_escaped;
    }
    parts.push(&written[from..]);
    parts
}

fn split(mut values: Vec<Value>, quoted: bool) -> Vec<Value> {
    if !quoted {
        for value in values
            .iter_mut()
            .filter(|value| !value.opaque && value.text.contains(char::is_whitespace))
        {
            value.text = value.text.replace(char::is_whitespace, "\u{1f}");
        }
    }
    values
}

/// `${X%y}` and its like.
fn edit(text: &str, operator: &str, first: &str, second: &str) -> Option<String> {
    let plain = |pattern: &str| !pattern.contains(['*', '?', '[']);
    Some(match operator {
        "^^" => text.to_uppercase(),
        ",," => text.to_lowercase(),
        "/" if plain(first) => text.replacen(first, second, 1),
        "//" if plain(first) => text.replace(first, second),
        "%" | "%%" if plain(first) => text.strip_suffix(first).unwrap_or(text).to_owned(),
        "#" | "##" if plain(first) => text.strip_prefix(first).unwrap_or(text).to_owned(),
        "%" if first == "/*" => text
            .rsplit_once('/')
            .map_or(text, |(folder, _)| folder)
            .to_owned(),
        "##" if first == "*/" => text.rsplit('/').next().unwrap_or(text).to_owned(),
        ":" => {
            let skip = first.trim().parse::<usize>().ok()?;
            let take = if second.is_empty() {
                usize::MAX
            } else {
                second.trim().parse().ok()?
            };
            text.chars().skip(skip).take(take).collect()
        }
        _ => return None,
    })
}

/// Drops the backslash before the characters that `escaped` names; a backslash before a line end goes with it.
fn unescape(written: &str, escaped: impl Fn(char) -> bool) -> String {
    let mut text = String::with_capacity(written.len());
    let mut rest = written.chars();
    while let Some(c) = rest.next() {
        if c != '\\' {
            text.push(c);
            continue;
        }
        match rest.next() {
            Some('\n') => {}
            Some(next) if escaped(next) => text.push(next),
            Some(next) => text.extend(['\\', next]),
            None => text.push('\\'),
        }
    }
    text
}

/// The escapes of `$'…'`, `echo -e` and `printf`.
pub(super) fn ansi_c(written: &str) -> String {
    let mut text = String::with_capacity(written.len());
    let mut rest = written;
    while let Some(at) = rest.find('\\') {
        text.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        let Some(c) = rest.chars().next() else {
            text.push('\\');
            break;
        };
        rest = &rest[c.len_utf8()..];
        let mut number = |most: usize, radix: u32| {
            let digits = rest
                .chars()
                .take(most)
                .take_while(|c| c.is_digit(radix))
                .count();
            let value = u32::from_str_radix(&rest[..digits], radix)
                .ok()
                .and_then(char::from_u32);
            rest = &rest[digits..];
            value
        };
        match c {
            'n' => text.push('\n'),
            't' => text.push('\t'),
            'r' => text.push('\r'),
            'a' | 'b' | 'e' | 'E' | 'f' | 'v' => text.push(' '),
            'x' => text.extend(number(2, 16)),
            'u' => text.extend(number(4, 16)),
            'U' => text.extend(number(8, 16)),
            '0'..='7' => {
                let octal = rest
                    .chars()
                    .take(if c == '0' { 3 } else { 2 })
                    .take_while(|c| c.is_digit(8))
                    .count();
                let digits = format!("{c}{}", &rest[..octal]);
                text.extend(
                    u32::from_str_radix(&digits, 8)
                        .ok()
                        .and_then(char::from_u32),
                );
                rest = &rest[octal..];
            }
            '\\' | '\'' | '"' | '?' => text.push(c),
            c => text.extend(['\\', c]),
        }
    }
    text.push_str(rest);
    text
}

fn first_braces(text: &str) -> Option<(&str, Vec<String>, &str)> {
    let bytes = text.as_bytes();
    for start in memchr::memchr_iter(b'{', bytes) {
        if start > 0 && bytes[start - 1] == b'$' {
            continue;
        }
        let mut depth = 0;
        let mut commas = vec![start];
        for at in start..bytes.len() {
            match bytes[at] {
                b'{' => depth += 1,
                b',' if depth == 1 => commas.push(at),
                b'}' if depth == 1 => {
                    let inner = &text[start + 1..at];
                    let options = if commas.len() > 1 {
                        commas.push(at);
                        commas
                            .windows(2)
                            .map(|pair| text[pair[0] + 1..pair[1]].to_owned())
                            .collect()
                    } else {
                        range(inner)?
                    };
                    return Some((&text[..start], options, &text[at + 1..]));
                }
                b'}' => depth -= 1,
                _ => {}
            }
        }
        // Without an end there is none for a later one at this depth; bounded, since words are short.
        if start > 256 {
            return None;
        }
    }
    None
}

/// `1..3`, `a..c`
fn range(inner: &str) -> Option<Vec<String>> {
    let (from, to) = inner.split_once("..")?;
    if let (Ok(from), Ok(to)) = (from.parse::<i64>(), to.parse::<i64>()) {
        let (low, high) = (from.min(to), from.max(to));
        return (high.checked_sub(low)? < MANY as i64)
            .then(|| (low..=high).map(|n| n.to_string()).collect());
    }
    let (&[from], &[to]) = (from.as_bytes(), to.as_bytes()) else {
        return None;
    };
    let both = from.is_ascii_alphanumeric() && to.is_ascii_alphanumeric();
    both.then(|| {
        (from.min(to)..=from.max(to))
            .map(|c| char::from(c).to_string())
            .collect()
    })
}
