//! What a program prints, as far as its arguments and its input tell.

use super::shell::{Output, Shell};
use super::word::{Value, ansi_c};
use super::wrapper::{self, Flags, flags, has, is_flag, one_of};

/// Their output comes from another machine.
const NETWORK: &str =
    "curl wget http https xh aria2c fetch lynx nc ncat netcat socat telnet ftp lwp-request";
/// They print what they read, or a part of it.
const PASS: &str = "cat tee head tail sort uniq grep egrep nl pv sponge tac less more";
/// They print what they read in another form.
const CHANGE: &str = "sed awk gawk tr cut jq yq gunzip gzip zcat xz xzcat bunzip2 bzcat zstd base64 base32 openssl gpg tar xxd rev";
const SILENT: &str = "true false : rm mkdir touch chmod cp mv sleep exit export";

pub(super) fn output(shell: &mut Shell, program: &str, args: &[Value], stdin: &Output) -> Output {
    match program {
        "echo" => echo(args),
        "printf" => printf(shell, args),
        "pwd" => match &shell.scope.cwd {
            Some(cwd) => Output::Text(format!("{}\n", cwd.display()), false),
            None => Output::Opaque,
        },
        "which" | "type" | "realpath" | "readlink" | "basename" | "dirname" => name(program, args),
        "base64" | "gbase64" if has(args, "dD", "decode") => decoded(stdin, args, base64),
        "openssl"
            if has(args, "d", "")
                && args
                    .iter()
                    .any(|arg| matches!(arg.text.as_str(), "base64" | "-base64" | "-a")) =>
        {
            decoded(stdin, args, base64)
        }
        "xxd" if has(args, "r", "") => decoded(stdin, args, hex),
        "rev" => decoded(stdin, args, |text| {
            Some(
                text.lines()
                    .map(|line| line.chars().rev().collect::<String>() + "\n")
                    .collect(),
            )
        }),
        "tr" => translated(stdin, args),
        "cat" => cat(shell, args, stdin),
        "tee" => {
            for file in args.iter().filter(|arg| !is_flag(&arg.text)) {
                remember(shell, file, stdin.clone());
            }
            stdin.clone()
        }
        "mkfifo" => {
            for file in args.iter().filter(|arg| !is_flag(&arg.text)) {
                remember(shell, file, Output::Opaque);
            }
            Output::Nothing
        }
        "ls" => names(args),
        "cp" | "mv" | "ln" => {
            copied(shell, args);
            Output::Nothing
        }
        _ if one_of(program, NETWORK) => network(shell, program, args),
        _ if one_of(program, SILENT) => Output::Nothing,
        _ => match stdin {
            Output::Network if one_of(program, PASS) || one_of(program, CHANGE) => Output::Network,
            Output::Text(text, _) if one_of(program, PASS) => Output::Text(text.clone(), true),
            Output::Names(_) if matches!(program, "sort" | "head" | "tail" | "uniq") => {
                stdin.clone()
            }
            _ => Output::Opaque,
        },
    }
}

fn echo(args: &[Value]) -> Output {
    let flags = args
        .iter()
        .take_while(|arg| is_flag(&arg.text) && arg.text[1..].chars().all(|c| "neE".contains(c)));
    let flags = flags.count();
    let mut text = joined(&args[flags..]);
    if args[..flags].iter().any(|arg| arg.text.contains('e')) {
        text.text = ansi_c(&text.text);
    }
    text.text.push('\n');
    text.printed()
}

fn joined(args: &[Value]) -> Value {
    Value {
        text: args
            .iter()
            .map(|arg| arg.text.as_str())
            .collect::<Vec<_>>()
            .join(" "),
        opaque: args.iter().any(|arg| arg.opaque),
        network: args.iter().any(|arg| arg.network),
        ..Value::default()
    }
}

fn printf(shell: &mut Shell, args: &[Value]) -> Output {
    let (variable, args) = match args {
        [flag, name, rest @ ..] if flag.text == "-v" => (Some(name.text.clone()), rest),
        [flag, rest @ ..] if flag.text == "--" => (None, rest),
        args => (None, args),
    };
    let Some((format, values)) = args.split_first() else {
        return Output::Nothing;
    };
    let mut made = Value {
        text: String::new(),
        ..joined(args)
    };
    let format = ansi_c(&format.text);
    let mut values = values.iter();
    loop {
        let mut rest = format.as_str();
        let before = values.len();
        while let Some(at) = rest.find('%') {
            made.text.push_str(&rest[..at]);
            rest = &rest[at + 1..];
            let end = rest
                .find(|c: char| c.is_ascii_alphabetic() || c == '%')
                .unwrap_or(rest.len());
            match rest[end..].chars().next() {
                Some('%') => made.text.push('%'),
                Some('b') => made
                    .text
                    .push_str(&ansi_c(values.next().map_or("", |value| &value.text))),
                _ => made
                    .text
                    .push_str(values.next().map_or("", |value| &value.text)),
            }
            rest = rest.get(end + 1..).unwrap_or_default();
        }
        made.text.push_str(rest);
        if values.len() == 0 || values.len() == before || made.text.len() > 64 * 1024 {
            break;
        }
    }
    shell.take_room(made.text.len());
    match variable {
        Some(name) => {
            shell.set(name, made);
            Output::Nothing
        }
        None => made.printed(),
    }
}

fn name(program: &str, args: &[Value]) -> Output {
    let Some(arg) = args.iter().find(|arg| !is_flag(&arg.text)) else {
        return Output::Opaque;
    };
    let text = arg.text.trim_end_matches('/');
    let text = match (program, text.rsplit_once('/')) {
        ("basename", Some((_, last))) => last,
        ("dirname", Some(("", _))) => "/",
        ("dirname", Some((folder, _))) => folder,
        ("dirname", None) => ".",
        _ => arg.text.as_str(),
    };
    Output::Text(format!("{text}\n"), arg.opaque)
}

fn cat(shell: &Shell, args: &[Value], stdin: &Output) -> Output {
    let mut files = args.iter().filter(|arg| !is_flag(&arg.text)).peekable();
    if files.peek().is_none() {
        return stdin.clone();
    }
    let outputs = files.map(|file| {
        if file.text == "-" {
            stdin.clone()
        } else {
            shell.printed_by_file(file)
        }
    });
    outputs.fold(Output::Nothing, Output::then)
}

fn names(args: &[Value]) -> Output {
    let folders = args.iter().filter(|arg| !is_flag(&arg.text));
    let mut names: Vec<Value> = folders
        .map(|folder| Value::unknown(format!("{}/*", folder.text.trim_end_matches('/'))))
        .collect();
    if names.is_empty() {
        names.push(Value::unknown("*"));
    }
    Output::Names(names)
}

/// A copy of a file that the script wrote or fetched is that file too.
fn copied(shell: &mut Shell, args: &[Value]) {
    const FLAGS: Flags = flags("tS", "");
    if let [from, to] = FLAGS.operands(args)[..] {
        let content = shell.printed_by_file(from);
        if !matches!(content, Output::Opaque | Output::File) {
            remember(shell, to, content);
        }
    }
}

fn remember(shell: &mut Shell, file: &Value, content: Output) {
    if let Some(path) = shell.absolute(file) {
        shell.write_file(path, content);
    }
}

fn network(shell: &mut Shell, program: &str, args: &[Value]) -> Output {
    let file = match program {
        "curl" => wrapper::value(args, Some('o'), "output"),
        "wget" => wrapper::value(args, Some('O'), "output-document"),
        "aria2c" => wrapper::value(args, Some('o'), "out"),
        _ => None,
    };
    let by_url = match program {
        "curl" => has(args, "O", "remote-name remote-name-all"),
        "wget" | "aria2c" => file.is_none(),
        _ => false,
    };
    if let Some(file) = file.filter(|file| !matches!(file.text.as_str(), "-" | "/dev/stdout")) {
        remember(shell, &file, Output::Network);
        return Output::Nothing;
    }
    if by_url {
        for url in args
            .iter()
            .filter(|arg| arg.text.contains('/') && !is_flag(&arg.text))
        {
            let name = url
                .text
                .split(['?', '#'])
                .next()
                .and_then(|url| url.rsplit('/').next());
            remember(
                shell,
                &Value::known(name.unwrap_or_default()),
                Output::Network,
            );
        }
    }
    Output::Network
}

fn decoded(stdin: &Output, args: &[Value], decode: impl Fn(&str) -> Option<String>) -> Output {
    match stdin {
        Output::Text(text, false)
            if args
                .iter()
                .all(|arg| is_flag(&arg.text) || !arg.text.contains('/')) =>
        {
            decode(text).map_or(Output::Opaque, |text| Output::Text(text, false))
        }
        Output::Network => Output::Network,
        _ => Output::Opaque,
    }
}

pub(super) fn base64(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len() * 3 / 4);
    let (mut bits, mut held) = (0_u32, 0);
    for c in text
        .bytes()
        .filter(|c| !c.is_ascii_whitespace() && *c != b'=')
    {
        let six = match c {
            b'A'..=b'Z' => c - b'A',
            b'a'..=b'z' => c - b'a' + 26,
            b'0'..=b'9' => c - b'0' + 52,
            b'+' | b'-' => 62,
            b'/' | b'_' => 63,
            _ => return None,
        };
        bits = bits << 6 | u32::from(six);
        held += 6;
        if held >= 8 {
            held -= 8;
            bytes.push((bits >> held & 0xff) as u8);
        }
    }
    String::from_utf8(bytes).ok()
}

pub(super) fn hex(text: &str) -> Option<String> {
    let digits: Vec<u8> = text.bytes().filter(|c| !c.is_ascii_whitespace()).collect();
    let pair = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    String::from_utf8(digits.chunks(2).map(pair).collect::<Option<Vec<u8>>>()?).ok()
}

/// `tr a-z n-za-m`
fn translated(stdin: &Output, args: &[Value]) -> Output {
    const MOST: usize = 256;
    let set = |value: &Value| {
        let chars: Vec<char> = ansi_c(&value.text).chars().collect();
        let mut all = Vec::new();
        let mut at = 0;
        while at < chars.len() && all.len() <= MOST {
            match chars.get(at + 1..at + 3) {
                Some(&['-', to]) if to >= chars[at] => {
                    all.extend((chars[at]..=to).take(MOST + 1));
                    at += 3;
                }
                _ => {
                    all.push(chars[at]);
                    at += 1;
                }
            }
        }
        all
    };
    match (stdin, args) {
        (Output::Network, _) => Output::Network,
        (Output::Text(text, false), [flag, gone]) if flag.text == "-d" => {
            let gone = set(gone);
            if gone.len() > MOST {
                return Output::Opaque;
            }
            Output::Text(text.chars().filter(|c| !gone.contains(c)).collect(), false)
        }
        (Output::Text(text, false), [from, to]) if !is_flag(&from.text) => {
            let (from, to) = (set(from), set(to));
            if from.len().max(to.len()) > MOST {
                return Output::Opaque;
            }
            let change = |c: char| match from.iter().position(|one| *one == c) {
                Some(at) => to.get(at).or(to.last()).copied().unwrap_or(c),
                None => c,
            };
            Output::Text(text.chars().map(change).collect(), false)
        }
        _ => Output::Opaque,
    }
}
