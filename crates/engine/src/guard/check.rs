//! Conditions of the default pack that globs cannot say. Pure.

use std::borrow::Cow;
use std::collections::HashMap;

use serde_json::Value;

use super::act::{Access, Act, Call, Fed, Touch, Word};
use super::command::one_of;
use super::edit;
use super::path;
use super::rule::{Match, Scene};
use super::zone::{Zone, whole_folder};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Check {
    /// What comes from the network is run.
    RunsNetwork,
    /// What cannot be known is run.
    RunsUnknown,
    /// A file is downloaded and then run.
    RunsDownload,
    /// The variables of the environment are sent away.
    SendsEnvironment,
    /// The environment is searched for secrets.
    FindsSecrets,
    /// Something is deleted with all below it on another machine, or in a container.
    DeletesRemote,
    /// A process or program of becket is looked for, and ended or changed.
    KillsBecket,
    /// SQL or the like that destroys data.
    DestroysData,
    ForkBomb,
    /// A part of the command could not be read.
    Unread,
    /// becket's home is written, or its passes are read.
    BecketHome,
    /// A settings file loses becket's entry, or hooks are switched off in it.
    Unregisters,
    /// A settings file gets a value for which Claude Code refuses it, becket's hooks with it.
    BreaksSettings,
    /// A settings file gets a hook, or a command file something that it runs.
    AddsHook,
    /// Claude Code is started with settings that leave hooks out.
    StartsUnhooked,
}

impl Check {
    pub const NAMES: [(&str, Self); 15] = [
        ("runs-network", Self::RunsNetwork),
        ("runs-unknown", Self::RunsUnknown),
        ("runs-download", Self::RunsDownload),
        ("sends-environment", Self::SendsEnvironment),
        ("finds-secrets", Self::FindsSecrets),
        ("deletes-remote", Self::DeletesRemote),
        ("kills-becket", Self::KillsBecket),
        ("destroys-data", Self::DestroysData),
        ("fork-bomb", Self::ForkBomb),
        ("unread", Self::Unread),
        ("becket-home", Self::BecketHome),
        ("unregisters", Self::Unregisters),
        ("breaks-settings", Self::BreaksSettings),
        ("adds-hook", Self::AddsHook),
        ("starts-unhooked", Self::StartsUnhooked),
    ];

    pub fn find(name: &str) -> Option<Self> {
        let mut names = Self::NAMES.iter();
        names
            .find(|(known, _)| *known == name)
            .map(|(_, check)| *check)
    }

    pub fn holds(self, scene: &Scene<'_>) -> Option<Match> {
        let acts = &scene.call.acts;
        let program = |act: &Act| Match::Program(act.program.clone());
        match self {
            Self::RunsNetwork => {
                let runs =
                    |act: &&Act| act.fed == Fed::Network && runs_fed(act) || runs_itself(act);
                let act = acts.iter().find(runs)?;
                Some(program(act))
            }
            Self::RunsUnknown => {
                let runs =
                    |act: &&Act| act.fed == Fed::Opaque && runs_stdin(act) || runs_encoded(act);
                let act = acts.iter().find(runs)?;
                Some(program(act))
            }
            Self::RunsDownload => runs_download(scene),
            Self::SendsEnvironment => {
                if let Some(act) = acts.iter().find(|act| code_sends_environment(act)) {
                    return Some(program(act));
                }
                let from = acts.iter().position(prints_environment)?;
                let given = |act: &Act| {
                    let marks = ["$(env", "$(printenv", "`env", "`printenv", "$(export"];
                    let mut words = act.args.iter().filter(|word| word.opaque);
                    words.any(|word| marks.iter().any(|mark| word.text.contains(mark)))
                };
                let by = |touch: &Touch| touch.act.and_then(|nth| acts.get(nth));
                let touches = &scene.call.touches;
                let reads = |nth: usize| {
                    let read = touches.iter().filter(move |it| it.act == Some(nth));
                    let wrote = |path: &str| {
                        let mut same = touches.iter().filter(|it| it.path == path);
                        same.any(|it| by(it).is_some_and(prints_environment))
                    };
                    read.into_iter().any(|it| wrote(&it.path))
                };
                let sends = |(nth, act): &(usize, &Act)| {
                    is_network(&act.program)
                        && (*nth > from && act.fed != Fed::Nothing || given(act) || reads(*nth))
                };
                let found = acts.iter().enumerate().find(sends);
                found.map(|(_, act)| program(act))
            }
            Self::FindsSecrets => {
                let from = acts.iter().position(prints_environment)?;
                let finds = |act: &&Act| {
                    let mut words = act.args.iter().map(|word| word.text.to_lowercase());
                    act.program.ends_with("grep") && words.any(|word| is_secret(&word))
                };
                acts[from..].iter().find(finds).map(program)
            }
            Self::DeletesRemote => acts.iter().find(|act| deletes_remote(act)).map(program),
            Self::KillsBecket => {
                let is_one = |act: &Act, names: &[&str]| names.contains(&&*act.program);
                let changers = ["rm", "mv", "chmod", "unlink", "ln"];
                let mut ends = acts
                    .iter()
                    .filter(|act| is_one(act, &["kill", "fuser"]) || is_one(act, &changers));
                ends.clone().next()?;
                let about = |act: &Act| act.args.iter().any(|word| word.text.contains("becket"));
                let lookers = [
                    "pgrep", "pidof", "ps", "lsof", "fuser", "grep", "cat", "which",
                ];
                let reads = |touch: &Touch| touch.path.contains("/.becket/");
                if !scene.call.touches.iter().any(reads) {
                    acts.iter()
                        .find(|act| is_one(act, &lookers) && about(act))?;
                }
                // `rm $(which becket)`
                let finds = acts.iter().any(|act| act.program == "which");
                let found = ends.find(|act| !is_one(act, &changers) || finds && about(act));
                found.map(program)
            }
            Self::DestroysData => {
                let act = acts.iter().find(|act| destroys_data(act, scene));
                act.map(program)
                    .or_else(|| tool_destroys_data(scene).then_some(Match::Other))
            }
            Self::ForkBomb => fork_bomb(&command(scene)?),
            Self::Unread => scene.call.unread.first().map(|_| Match::Other),
            Self::BecketHome => {
                let mut touches = scene.call.touches.iter();
                let touch = touches.find(|touch| touches_becket(touch, scene))?;
                Some(Match::Path(touch.path.clone()))
            }
            Self::Unregisters => {
                let mut edits = scene.edits.iter();
                let edit = edits.find(|edit| edit.unregisters(scene.home))?;
                Some(Match::Path(edit.path.clone()))
            }
            Self::BreaksSettings => {
                let edit = scene.edits.iter().find(|edit| edit.breaks_settings())?;
                Some(Match::Path(edit.path.clone()))
            }
            Self::AddsHook => adds_hook(scene),
            Self::StartsUnhooked => {
                let mut claude = acts.iter().filter(|act| act.program == "claude");
                claude.find(|act| starts_unhooked(act, scene)).map(program)
            }
        }
    }
}

fn command<'a>(scene: &Scene<'a>) -> Option<Cow<'a, str>> {
    path::command_line(scene.tool, scene.input)
}

const SHELLS: [&str; 8] = ["sh", "bash", "zsh", "dash", "ksh", "fish", "ash", "csh"];
const INTERPRETERS: [&str; 8] = ["node", "perl", "ruby", "php", "deno", "bun", "lua", "tclsh"];

fn is_interpreter(program: &str) -> bool {
    INTERPRETERS.contains(&program)
        || program == "osascript"
        || program.starts_with("python")
        || program.starts_with("pypy")
}

fn is_network(program: &str) -> bool {
    let names = [
        "curl", "wget", "nc", "ncat", "netcat", "socat", "ssh", "http", "https", "xh", "telnet",
        "ftp", "aria2c", "fetch",
    ];
    names.contains(&program)
}

/// Whether what it reads on its standard input is a program to it.
fn runs_stdin(act: &Act) -> bool {
    let words = || act.args.iter().map(|word| &*word.text);
    // `deno run -`
    let mut operands = words().filter(|word| *word == "-" || !word.starts_with('-'));
    let has_run = ["deno", "bun"].contains(&&*act.program);
    let operand = operands.find(|word| !(has_run && *word == "run"));
    let is_stdin =
        operand.is_none_or(|word| ["-", "/dev/stdin", "/proc/self/fd/0"].contains(&word));
    let short = |letters: &[char]| {
        words().any(|word| {
            let cluster = word.strip_prefix('-').filter(|rest| !rest.starts_with('-'));
            cluster.is_some_and(|cluster| cluster.contains(letters))
        })
    };
    match &*act.program {
        "source" | "." => is_stdin,
        "eval" => true,
        shell if SHELLS.contains(&shell) => short(&['s']) || (is_stdin && !short(&['c'])),
        other if is_interpreter(other) => is_stdin && !short(&['c', 'e', 'm', 'n', 'p', 'r']),
        _ => false,
    }
}

/// Whether what it is fed becomes a program: on its standard input, in a file, or in the command itself.
fn runs_fed(act: &Act) -> bool {
    let runs = SHELLS.contains(&&*act.program)
        || is_interpreter(&act.program)
        || ["source", ".", "eval"].contains(&&*act.program);
    let unknown = act
        .args
        .iter()
        .any(|word| word.opaque || word.text.starts_with("/dev/fd/"));
    // The program itself: `$(curl …)`.
    let is_program = act.program.is_empty() || act.program.contains(['$', '`', '(', ')']);
    runs_stdin(act) || runs && unknown || is_program
}

/// `exec(urlopen(…))`, `fetch(…).then(eval)`, a shell at a socket.
fn runs_itself(act: &Act) -> bool {
    let itself = |code: &str| {
        let has = |words: &[&str]| words.iter().any(|it| code.contains(it));
        has(&["exec(", "eval", "Function("]) && has(&["http", "urlopen", "fetch(", "socket"])
            || has(&["sock"]) && has(&["/bin/sh", "/bin/bash", "pty.spawn"])
    };
    is_interpreter(&act.program) && act.args.iter().any(|word| itself(&word.text))
}

/// `exec(b64decode(…))`
fn runs_encoded(act: &Act) -> bool {
    let encoded = |code: &str| {
        let has = |words: &[&str]| words.iter().any(|it| code.contains(it));
        has(&["exec(", "eval(", "system(", "Function("])
            && has(&["b64decode", "base64", "fromhex", "atob(", "decompress("])
    };
    is_interpreter(&act.program) && act.args.iter().any(|word| encoded(&word.text))
}

/// All variables, not a single one: `post(url, json=dict(os.environ))`.
fn code_sends_environment(act: &Act) -> bool {
    let sends = |code: &str| {
        let has = |words: &[&str]| words.iter().any(|it| code.contains(it));
        has(&["os.environ)", "process.env)", "ENV.to_"])
            && has(&["post", "urlopen", "fetch(", "request(", "send", "Net::HTTP"])
    };
    is_interpreter(&act.program) && act.args.iter().any(|word| sends(&word.text))
}

fn is_secret(word: &str) -> bool {
    let mut words = "secret token passw api_key apikey private_key credential".split(' ');
    words.any(|secret| word.contains(secret))
        || ["aws", "key", "keys", "cred", "pass", "pwd"]
            .contains(&word.trim_matches(['^', '_', '=', '*', '.']))
}

/// Build folders and temporary ones may go there, too.
fn deletes_remote(act: &Act) -> bool {
    let words = || act.args.iter().map(|word| &*word.text);
    let is_flag = |word: &&str| word.starts_with('-');
    let recursive = words().filter(is_flag).any(|word| {
        let cluster = !word.starts_with("--") && word.contains(['r', 'R']);
        cluster || word.starts_with("--rec")
    });
    let root = std::path::Path::new("/");
    let keeps = |word: &str| {
        let zone = Zone::of(&format!("/{}", word.trim_start_matches('/')), root, root);
        let cache = word.starts_with("/var/lib/apt/lists") || word.starts_with("/var/cache/");
        !cache && !matches!(zone, Zone::Build | Zone::Temp)
    };
    let finds = || act.program == "find" && words().any(|word| word == "-delete");
    let deletes = act.program == "rm" && recursive || finds();
    act.remote && deletes && words().filter(|word| !is_flag(word)).any(keeps)
}

fn runs_files(act: &Act) -> bool {
    SHELLS.contains(&&*act.program)
        || is_interpreter(&act.program)
        || ["source", "."].contains(&&*act.program)
}

fn runs_download(scene: &Scene<'_>) -> Option<Match> {
    let acts = &scene.call.acts;
    // What is fetched, by the last part of its name: by which act, and the URL if the file is named after it.
    let mut fetched: HashMap<&str, Vec<(usize, Option<&str>)>> = HashMap::new();
    for (nth, act) in acts.iter().enumerate() {
        if is_network(&act.program) {
            let words = act.args.iter().map(|word| &*word.text);
            for url in words.filter(|word| act.program != "ssh" && is_url(word)) {
                fetched
                    .entry(last_name(url))
                    .or_default()
                    .push((nth, Some(url)));
            }
        }
    }
    for touch in &scene.call.touches {
        let act = touch.act.and_then(|nth| Some((nth, acts.get(nth)?)));
        if let Some((nth, act)) = act.filter(|_| touch.access == Access::Write)
            && is_network(&act.program)
        {
            fetched
                .entry(last_name(&touch.path))
                .or_default()
                .push((nth, None));
        }
    }
    let runs = |(at, act): &(usize, &Act)| {
        let script = act.args.iter().find(|word| !word.text.starts_with('-'));
        let name = match runs_files(act) {
            true => script.map_or("", |word| word.text.trim_start_matches("./")),
            false => &*act.program,
        };
        let is_it = |url: &str| {
            url.strip_suffix(name)
                .is_some_and(|rest| rest.ends_with('/'))
        };
        let mut from = fetched.get(last_name(name)).into_iter().flatten();
        let mut program = fetched.get(&*act.program).into_iter().flatten();
        !name.is_empty() && from.any(|(nth, url)| nth < at && url.is_none_or(is_it))
            || program.any(|(nth, url)| nth < at && url.is_none())
    };
    let found = acts
        .iter()
        .enumerate()
        .filter(|_| !fetched.is_empty())
        .find(runs);
    found.map(|(_, act)| Match::Program(act.program.clone()))
}

/// `https://host/x`, `host.tld/x`
fn is_url(word: &str) -> bool {
    let host = word.split('/').next().unwrap_or_default();
    let is_host = host.len() < word.len() && host.contains('.') && !host.starts_with('.');
    word.contains("://") || is_host && !host.contains(['=', '@'])
}

fn last_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or_default()
}

fn prints_environment(act: &Act) -> bool {
    match &*act.program {
        "printenv" | "history" => true,
        "docker" | "podman" => act.args.first().is_some_and(|word| word.text == "inspect"),
        "env" | "set" | "export" | "declare" | "typeset" => {
            act.args.iter().all(|word| word.text.starts_with('-'))
        }
        _ => false,
    }
}

const CLIENTS: &str = "spark-sql beeline hive impala-shell trino presto cqlsh isql usql litecli influx turso libsql psql \
    mysql mariadb sqlite3 sqlcmd sqlplus clickhouse-client clickhouse cockroach duckdb bq snowsql mycli \
    pgcli heroku mongosh mongo wrangler redis-cli valkey-cli keydb-cli";

fn destroys_data(act: &Act, scene: &Scene<'_>) -> bool {
    if act.program == "curl" {
        let has = |text: &str| act.args.iter().any(|word| word.text.contains(text));
        return has("DELETE") && (has(":9200/") || has("/_all")) || has("/_delete_by_query");
    }
    if is_interpreter(&act.program) {
        let runs = |code: &str| code.contains("execute(") && is_destructive_sql(&plain_words(code));
        let fed =
            || act.fed == Fed::Text && command(scene).is_some_and(|it| it.contains("connect"));
        return act.args.iter().any(|word| runs(&word.text))
            || fed() && command(scene).is_some_and(|it| runs(&it));
    }
    if !one_of(&act.program, CLIENTS) {
        return false;
    }
    let in_file = ["sqlite3", "duckdb"].contains(&&*act.program);
    let is_scratch = |text: &str| {
        let test = text.ends_with("_test") || text.starts_with("test_") && !text.contains(' ');
        in_file && (text == ":memory:" || text.starts_with("/tmp/")) || test && !text.contains(';')
    };
    // The database, not the user or the host.
    let before = std::iter::once("").chain(act.args.iter().map(|word| &*word.text));
    let is_value = |flag: &str| "-U -u -h -H -p -P -a".split(' ').any(|it| it == flag);
    let mut pairs = before.zip(&act.args);
    if pairs.any(|(before, word)| !is_value(before) && is_scratch(&word.text)) {
        return false;
    }
    // What stands in quotes is a value.
    let statement = |text: &str| -> String { text.split('\'').step_by(2).collect() };
    let said = act
        .args
        .iter()
        .any(|word| is_destructive(&statement(&word.text)));
    // Of a command with a here-document, only that counts.
    let fed = |command: &str| match command.split_once('\n') {
        Some((line, text)) if line.contains("<<") && !line.contains("<<<") => {
            is_destructive(&statement(line)) || is_destructive(&statement(text))
        }
        _ => is_destructive(command),
    };
    said || fed_script(act, scene)
        || act.fed == Fed::Text && command(scene).is_some_and(|it| fed(&it))
}

/// A file that a client runs, and that tells by its name what it does: `psql < drop_all.sql`.
fn fed_script(act: &Act, scene: &Scene<'_>) -> bool {
    let destroys = |path: &str| {
        let name = path.rsplit('/').next().unwrap_or_default();
        let mut words = "drop truncate wipe reset destroy purge delete nuke".split(' ');
        let parts = || name.split(|c: char| !c.is_alphanumeric());
        name.ends_with(".sql") && words.any(|word| parts().any(|part| part == word))
    };
    let read = scene
        .call
        .touches
        .iter()
        .filter(|it| it.access == Access::Read);
    act.args.iter().any(|word| destroys(&word.text))
        || act.fed != Fed::Nothing && read.into_iter().any(|it| destroys(&it.path))
}

/// A statement that an MCP tool gets. A text that only speaks of one does not begin with it.
fn tool_destroys_data(scene: &Scene<'_>) -> bool {
    let texts = ["sql", "query", "statement"].into_iter().filter_map(|key| {
        let text = scene.input.get(key).and_then(Value::as_str)?;
        Some(text.split('\'').step_by(2).collect::<String>())
    });
    let begins = |statement: &str| {
        let first = statement.split_whitespace().next().unwrap_or_default();
        let verbs = ["drop", "truncate", "delete", "update", "alter"];
        verbs.contains(&&*first.to_lowercase()) && is_destructive(statement)
    };
    let destroys = |text: String| text.split(';').any(begins);
    // `query` may be words to search for.
    let mut data = "sql db data postgres supabase snowflake bigquery neon".split(' ');
    let for_data = data.any(|it| scene.tool.contains(it)) || scene.input.get("sql").is_some();
    scene.tool.starts_with("mcp__") && for_data && texts.into_iter().any(destroys)
}

/// Whether a statement drops or empties something, or changes all rows.
fn is_destructive(text: &str) -> bool {
    let text = plain_words(text);
    let mut others = "dropdatabase|.deletemany {}|.remove {}|flushall|flushdb".split('|');
    let drops = text.split([' ', ';']).any(|word| word.ends_with(".drop"));
    drops || others.any(|word| text.contains(word)) || is_destructive_sql(&text)
}

/// In lower case, without quotes and brackets.
fn plain_words(text: &str) -> String {
    let words: Vec<String> = text
        .split(|c: char| c.is_whitespace() || "\"'`()=".contains(c))
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
        .collect();
    words.join(" ")
}

fn is_destructive_sql(text: &str) -> bool {
    text.split(';').any(|statement| {
        let has = |words: &str| format!(" {statement} ").contains(&format!(" {words} "));
        let drops = "table database schema view user role column index tablespace collection owned keyspace \
                     materialized measurement bucket stream stage warehouse";
        let all_rows = (has("delete from") || has("update") && has("set"))
            && (!has("where") || has("where true") || has("where 1 1"));
        drops.split(' ').any(|what| has(&format!("drop {what}"))) || has("truncate") || all_rows
    })
}

/// A function that starts itself twice, in the background.
fn fork_bomb(command: &str) -> Option<Match> {
    memchr::memchr(b'{', command.as_bytes())?;
    let text: String = command.chars().filter(|c| !c.is_whitespace()).collect();
    let (before, body) = text.split_once("(){")?;
    let is_name = |c: char| c.is_alphanumeric() || "_:.".contains(c);
    let name = before.rsplit(|c: char| !is_name(c)).next()?;
    let name = name.strip_prefix("function").unwrap_or(name);
    (!name.is_empty() && body.contains(&format!("{name}|{name}&"))).then_some(Match::Other)
}

fn touches_becket(touch: &Touch, scene: &Scene<'_>) -> bool {
    let home = scene
        .becket
        .to_str()
        .unwrap_or_default()
        .trim_end_matches('/');
    let is_in = |path: &str, folder: &str| {
        let below = path.strip_prefix(folder);
        below.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let paths = [Some(&touch.path), touch.real.as_ref()];
    let act = touch.act.and_then(|act| scene.call.acts.get(act));
    let access = match act.is_some_and(changes_sqlite) {
        true => Access::Write,
        false => touch.access,
    };
    paths.into_iter().flatten().any(|path| match access {
        Access::Read | Access::List => {
            let below = path.strip_prefix(home);
            below.is_some_and(|rest| is_in(rest, "/run/guard"))
        }
        Access::Write => is_in(path, home),
        Access::Delete => {
            let around = touch.recursive && is_in(home, whole_folder(path));
            is_in(path, home) || around
        }
    })
}

/// sqlite3 with anything but a query.
fn changes_sqlite(act: &Act) -> bool {
    let first = |word: &str| word.split_whitespace().next().map(str::to_lowercase);
    let verbs = "delete update insert drop alter replace";
    let changes = |word: &str| first(word).is_some_and(|verb| one_of(&verb, verbs));
    act.program == "sqlite3" && act.args.iter().any(|word| changes(&word.text))
}

/// A hook in settings, or a command file that runs something.
fn adds_hook(scene: &Scene<'_>) -> Option<Match> {
    if let Some(edit) = scene.edits.iter().find(|edit| edit.adds_hook()) {
        return Some(Match::Path(edit.path.clone()));
    }
    if let Some(path) = scene.brings_command {
        return Some(Match::Path(path.to_owned()));
    }
    let mut touches = scene.call.touches.iter();
    let touch = touches.find(|it| writes_command(it, scene.call))?;
    Some(Match::Path(touch.path.clone()))
}

/// Returns true if a program writes a command file that runs something, or whose text is not known.
fn writes_command(touch: &Touch, call: &Call) -> bool {
    let paths = [Some(&touch.path), touch.real.as_ref()];
    let is_command = paths.into_iter().flatten().any(|it| edit::is_command(it));
    let act = touch.act.and_then(|nth| call.acts.get(nth));
    let Some(act) = act.filter(|_| is_command && touch.access == Access::Write) else {
        return false;
    };
    // What these bring there is judged by the files that they take it from.
    let verb = act.args.first().map_or("", |word| &*word.text);
    let moves = one_of(
        &act.program,
        "cp mv ln link install touch mkdir chmod chown",
    ) || act.program == "git" && one_of(verb, "mv checkout restore");
    let mut paths = paths.into_iter().flatten();
    !moves && !paths.any(|path| edit::is_harmless(path, call))
}

/// Claude Code with settings that leave hooks out, or that are not known.
fn starts_unhooked(act: &Act, scene: &Scene<'_>) -> bool {
    let sources = value_of(act, "--setting-sources");
    // Where the user's settings are left out, becket's registration is, too.
    let is_user = |word: &Word| word.text.split(',').any(|source| source.trim() == "user");
    let settings = scene.given_settings.iter();
    let mut settings = settings.map(|text| edit::parse(text.as_deref()?));
    sources
        .into_iter()
        .any(|word| word.opaque || !is_user(&word))
        || settings.any(|it| it.is_none_or(|it| edit::leaves_hooks_out(&it)))
}

/// The values of a long flag, each time that it is given.
pub fn value_of(act: &Act, flag: &str) -> Vec<Word> {
    let ends = act.args.iter().position(|word| word.text == "--");
    let words = &act.args[..ends.unwrap_or(act.args.len())];
    let value = |(at, word): (usize, &Word)| {
        let rest = word.text.strip_prefix(flag)?;
        match rest.strip_prefix('=') {
            Some(text) => Some(Word {
                text: text.to_owned(),
                opaque: word.opaque,
            }),
            None if rest.is_empty() => words.get(at + 1).cloned(),
            None => None,
        }
    };
    words.iter().enumerate().filter_map(value).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements() {
        for (text, expected) in [
            ("DROP TABLE users;", true),
            ("drop  database prod", true),
            ("select 1; TRUNCATE orders", true),
            ("delete from users", true),
            ("delete from users where id = 3", false),
            ("update users set a = 1", true),
            ("update users set a = 1 where id = 2", false),
            ("select * from dropped_tables", false),
            ("db.users.deleteMany({})", true),
            ("delete from users where 1=1", true),
            ("db.dropDatabase()", true),
            ("insert into drops values (1)", false),
        ] {
            assert_eq!(is_destructive(text), expected, "{text}");
        }
        assert!(fork_bomb(":(){ :|:& };:").is_some());
        assert!(fork_bomb("b() { b | b & }; b").is_some());
        assert!(fork_bomb("f() { g | h & }; f").is_none());
    }
}
