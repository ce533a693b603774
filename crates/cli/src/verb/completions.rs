//! `becket completions`: prints completion scripts for a shell, and writes man pages.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Arg, Command, CommandFactory};
use clap_complete::Shell;

use crate::args::Args;

/// Print completions for a shell, or write the man pages
#[derive(Debug, clap::Args)]
pub struct CompletionsArgs {
    /// The shell (default: the one in SHELL)
    #[arg(value_enum)]
    shell: Option<Shell>,
    /// Write the man pages into this folder instead
    #[arg(long, value_name = "FOLDER", conflicts_with = "shell")]
    man: Option<PathBuf>,
}

impl CompletionsArgs {
    pub fn run(self) -> Result<ExitCode> {
        let mut command = Args::command();
        if let Some(folder) = self.man {
            std::fs::create_dir_all(&folder)
                .with_context(|| format!("could not make {}", folder.display()))?;
            command.build();
            clap_mangen::generate_to(command, &folder)
                .with_context(|| format!("could not write man pages to {}", folder.display()))?;
            println!("The man pages are in {}.", folder.display());
            return Ok(ExitCode::SUCCESS);
        }
        let shell = self.shell.or_else(Shell::from_env).unwrap_or(Shell::Bash);
        let mut script = Vec::new();
        clap_complete::generate(shell, &mut command, "becket", &mut script);
        let script = String::from_utf8(script).context("could not write completions")?;
        print!("{}", add_names(&script, shell, &command));
        Ok(ExitCode::SUCCESS)
    }
}

/// The id in clap of arguments and options that take a hook's name.
const HOOK: &str = "hook";
/// The same for a session.
const SESSION: &str = "session";

/// A part of the help of each argument that takes a session's title, too.
const TITLE: &str = "its title";

/// The functions for bash. A word that begins a title, and no id, becomes the id.
const BASH: &str = r#"
_becket_sessions() {
    local word="${2#[\"\']}" id title named=()
    word="${word//\\/}"
    COMPREPLY=()
    while IFS=$'\t' read -r id title; do
        [[ ${id} == "${word}"* ]] && COMPREPLY+=( "${id}" )
        [[ ${title} == "${word}"* ]] && named+=( "${id}" )
    done < <("$1" sessions --names 2>/dev/null)
    [[ ${#COMPREPLY[@]} -eq 0 ]] && COMPREPLY=( "${named[@]}" )
    return 0
}

_becket_or_names() {
    _becket "$@"
    local cur="${COMP_WORDS[COMP_CWORD]}" last="${COMP_WORDS[COMP_CWORD-1]}" before='' names
    (( COMP_CWORD > 1 )) && before="${COMP_WORDS[COMP_CWORD-2]}"
    # The value follows without a space.
    [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *= ]] && compopt -o nospace
    [[ ${cur} == -* ]] && return 0
    # --session=ID is three words here.
    [[ ${cur} == '=' ]] && cur=''
    [[ ${last} == '=' ]] && last="${before}"
    case "${before} ${last}" in
        OTHERS)
            ;;
        HOOKS)
            names=$(compgen -W "$("$1" hooks --names 2>/dev/null)" -- "${cur}")
            [[ -n ${names} ]] && COMPREPLY=( ${names} )
            ;;
        SESSIONS)
            _becket_sessions "$1" "${cur}"
            ;;
    esac
    return 0
}
"#;

const ZSH: &str = r#"
(( $+functions[_becket_hooks] )) ||
_becket_hooks() {
    local -a names
    names=(${(f)"$(_call_program hooks becket hooks --names 2>/dev/null)"})
    compadd -a names
}
(( $+functions[_becket_sessions] )) ||
_becket_sessions() {
    local line id title word="${(Q)PREFIX}"
    local -a known named titles
    for line in ${(f)"$(_call_program sessions becket sessions --names 2>/dev/null)"}; do
        id="${line%%$'\t'*}" title="${${line#$id}#$'\t'}"
        known+=("${id//:/\\:}:${title}")
        [[ -n "${word}" && "${title}" == "${word}"* ]] && named+=("${id}") titles+=("${id}  ${title}")
    done
    _describe -t sessions session known && return
    (( $#named )) && compadd -U -l -d titles -a named
}
"#;

const FISH: &str = r#"
function __fish_becket_sessions
    becket sessions --names 2>/dev/null
end

function __fish_becket_sessions_and_titles
    for line in (__fish_becket_sessions)
        echo $line
        set -l parts (string split -m 1 \t -- $line)
        if test -n "$parts[2]"
            printf '%s\t%s\n' $parts[2] $parts[1]
        end
    end
end
"#;

/// Changes clap's script so that it completes names of hooks and sessions in place of files. Returns the script
/// unchanged for a shell other than bash, zsh and fish.
pub fn add_names(script: &str, shell: Shell, command: &Command) -> String {
    let hidden = hidden_words(command);
    let shown = script.lines().filter(|line| !offers(line, &hidden));
    match shell {
        Shell::Bash => {
            let script = script.replace("complete -F _becket ", "complete -F _becket_or_names ");
            let script = bash_without(&script, &hidden);
            insert_before(
                &script,
                "\nif [[ \"${BASH_VERSINFO[0]}\"",
                &bash_functions(command),
            )
        }
        Shell::Zsh => {
            let lines = shown.map(|line| {
                let line = line.replace(":_default'", &format!(":{}'", zsh_source(line)));
                line + "\n"
            });
            let script: String = lines.collect();
            insert_before(&script, "\nif [ \"$funcstack[1]\" = \"_becket\" ]", ZSH)
        }
        Shell::Fish => {
            let mut script: String = shown.map(fish_option).collect();
            script += FISH;
            let arguments = [HOOK, SESSION].into_iter().flat_map(|id| {
                let takers = takers(command, id).into_iter();
                takers.filter_map(move |path| fish_argument(&path, id))
            });
            script.extend(arguments);
            script
        }
        _ => script.to_owned(),
    }
}

/// A command after the commands that it belongs to.
type Path<'a> = Vec<&'a Command>;

/// Returns all commands below this one.
fn paths(command: &Command) -> Vec<Path<'_>> {
    let below = command.get_subcommands().flat_map(|verb| {
        let deeper = paths(verb).into_iter().map(move |mut path| {
            path.insert(0, verb);
            path
        });
        std::iter::once(vec![verb]).chain(deeper)
    });
    below.collect()
}

fn argument<'a>(path: &Path<'a>, id: &str) -> Option<&'a Arg> {
    path.last()?
        .get_positionals()
        .find(|arg| arg.get_id() == id)
}

/// Returns the commands with an argument of this id.
fn takers<'a>(command: &'a Command, id: &str) -> Vec<Path<'a>> {
    let all = paths(command).into_iter();
    all.filter(|path| argument(path, id).is_some()).collect()
}

fn last<'a>(path: &Path<'a>) -> &'a str {
    path.last().map_or("", |verb| verb.get_name())
}

/// Returns the functions for bash, which choose the source by the two words before the one that is completed.
fn bash_functions(command: &Command) -> String {
    let (hooks, sessions) = (takers(command, HOOK), takers(command, SESSION));
    let hooks: Vec<&str> = hooks.iter().map(last).collect();
    let sessions: Vec<&str> = sessions.iter().map(last).collect();
    // Commands that share their last word with one that takes a name, and take none.
    let mut others = Vec::new();
    for path in paths(command) {
        let word = last(&path);
        let takes_name = argument(&path, HOOK).is_some() || argument(&path, SESSION).is_some();
        if path.len() > 1 && !takes_name && (hooks.contains(&word) || sessions.contains(&word)) {
            others.push(format!("'{} {word}'", path[path.len() - 2].get_name()));
        }
    }
    BASH.replace("OTHERS", &others.join("|"))
        .replace("HOOKS", &bash_patterns(&hooks, "--hook"))
        .replace("SESSIONS", &bash_patterns(&sessions, "--session"))
}

fn bash_patterns(words: &[&str], option: &str) -> String {
    let words = words.iter().chain([&option]);
    let patterns: Vec<String> = words.map(|word| format!("*' {word}'")).collect();
    patterns.join("|")
}

/// Returns the source of the completions for the argument in this line.
fn zsh_source(line: &str) -> &'static str {
    if zsh_line_takes(line, HOOK) {
        "_becket_hooks"
    } else if zsh_line_takes(line, SESSION) {
        "_becket_sessions"
    } else {
        "_default"
    }
}

fn zsh_line_takes(line: &str, id: &str) -> bool {
    let argument = line.trim_start_matches(['\'', '*', ':']);
    argument.starts_with(&format!("{id} -- ")) || argument.contains(&format!("--{id}=["))
}

fn fish_option(line: &str) -> String {
    let source = match line.strip_suffix(" -r") {
        Some(line) if line.contains(" -l hook ") => fish_source(HOOK, line),
        Some(line) if line.contains(" -l session ") => fish_source(SESSION, line),
        _ => return format!("{line}\n"),
    };
    format!("{} -x -a \"({source})\"\n", line.trim_end_matches(" -r"))
}

/// Returns the source of the completions. Titles are among them if the help names them.
fn fish_source(id: &str, help: &str) -> &'static str {
    match id {
        HOOK => "becket hooks --names 2>/dev/null",
        _ if help.contains(TITLE) => "__fish_becket_sessions_and_titles",
        _ => "__fish_becket_sessions",
    }
}

fn fish_argument(path: &Path<'_>, id: &str) -> Option<String> {
    let help = argument(path, id)?.get_help()?.to_string();
    let source = fish_source(id, &help);
    let (verb, deeper) = path.split_first()?;
    let mut when = format!("__fish_becket_using_subcommand {}", verb.get_name());
    for verb in deeper {
        when += &format!("; and __fish_seen_subcommand_from {}", verb.get_name());
    }
    if path.last()?.get_positionals().count() > 1 {
        // The arguments after the first one take no names.
        when += &format!("; and __fish_is_nth_token {}", path.len() + 1);
    }
    Some(format!(
        "complete -c becket -n \"{when}\" -f -a \"({source})\"\n"
    ))
}

/// Returns the verbs and options that `--help` hides, which clap would offer. A word that another verb shows is not
/// among them.
fn hidden_words(command: &Command) -> Vec<String> {
    let mut words = Vec::new();
    collect(command, &mut words);
    let (hidden, shown): (Vec<_>, Vec<_>) = words.into_iter().partition(|(hides, _)| *hides);
    let hidden = hidden.into_iter().map(|(_, word)| word);
    hidden
        .filter(|word| shown.iter().all(|(_, it)| it != word))
        .collect()
}

/// Removes the hidden words and the placeholders of arguments from bash's script.
fn bash_without(script: &str, hidden: &[String]) -> String {
    let lines = script.lines().map(|line| match line.split_once("opts=\"") {
        Some((indent, offered)) if !offered.starts_with('"') => {
            let offered = offered.trim_end_matches('"').split(' ');
            let offered: Vec<&str> = offered
                .filter(|word| !word.starts_with(['[', '<']) && hidden.iter().all(|it| it != word))
                .collect();
            format!("{indent}opts=\"{}\"\n", offered.join(" "))
        }
        _ => format!("{line}\n"),
    });
    lines.collect()
}

/// Returns true if a line of zsh's or fish's script offers one of these words.
fn offers(line: &str, words: &[String]) -> bool {
    words.iter().any(|word| match word.strip_prefix("--") {
        Some(option) => {
            let zsh = line.trim_start_matches(['\'', '(', ')', '*']);
            line.contains(&format!(" -l {option} "))
                || zsh.starts_with(&format!("{word}["))
                || zsh.starts_with(&format!("{word}=["))
        }
        None => {
            line.starts_with(&format!("'{word}:")) || line.contains(&format!(" -f -a \"{word}\" "))
        }
    })
}

/// Collects the words of a command and of all below it, each with true if `--help` hides it.
fn collect(command: &Command, words: &mut Vec<(bool, String)>) {
    let options = command.get_arguments();
    words.extend(
        options.filter_map(|arg| Some((arg.is_hide_set(), format!("--{}", arg.get_long()?)))),
    );
    for verb in command.get_subcommands() {
        words.push((verb.is_hide_set(), verb.get_name().to_owned()));
        collect(verb, words);
    }
}

/// Inserts a text before the mark, or at the end of a script without it.
fn insert_before(script: &str, mark: &str, ours: &str) -> String {
    let at = script.find(mark).unwrap_or(script.len());
    format!("{}{ours}{}", &script[..at], &script[at..])
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use crate::args::Args;

    use super::*;

    fn script(shell: Shell) -> (String, String) {
        let mut command = Args::command();
        let mut bytes = Vec::new();
        clap_complete::generate(shell, &mut command, "becket", &mut bytes);
        let theirs = String::from_utf8(bytes).unwrap();
        let ours = add_names(&theirs, shell, &command);
        (theirs, ours)
    }

    /// Returns the lines that becket adds.
    fn added(shell: Shell) -> String {
        let (theirs, ours) = script(shell);
        let known: Vec<&str> = theirs.lines().collect();
        let new = ours.lines().filter(|line| !known.contains(line));
        new.map(|line| format!("{line}\n")).collect()
    }

    #[test]
    fn shells_ask_for_the_names() {
        insta::assert_snapshot!("bash", added(Shell::Bash));
        insta::assert_snapshot!("zsh", added(Shell::Zsh));
        insta::assert_snapshot!("fish", added(Shell::Fish));
        let (theirs, ours) = script(Shell::Elvish);
        assert_eq!(theirs, ours);
    }
}
