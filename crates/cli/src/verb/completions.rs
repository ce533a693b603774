//! `becket completions`: scripts for the shell, and man pages.

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
        print!("{}", add(&script, shell, &command));
        Ok(ExitCode::SUCCESS)
    }
}

/// What clap calls a hook's name and a session's, as an argument and as an option.
const HOOK: &str = "hook";
const SESSION: &str = "session";

/// What the help of an argument says that takes a title, too.
const TITLE: &str = "its title";

/// A word that begins a title, and no id, becomes the id.
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

/// The script, with names where it would have files. Other shells get it as it is.
pub fn add(script: &str, shell: Shell, command: &Command) -> String {
    let hidden = hidden(command);
    let shown = || script.lines().filter(|line| !offers(line, &hidden));
    match shell {
        Shell::Bash => {
            let script = script.replace("complete -F _becket ", "complete -F _becket_or_names ");
            let script = bash_without(&script, &hidden);
            before(&script, "\nif [[ \"${BASH_VERSINFO[0]}\"", &bash(command))
        }
        Shell::Zsh => {
            let lines = shown().map(|line| {
                let line = line.replace(":_default'", &format!(":{}'", zsh_source(line)));
                line + "\n"
            });
            let script: String = lines.collect();
            before(&script, "\nif [ \"$funcstack[1]\" = \"_becket\" ]", ZSH)
        }
        Shell::Fish => {
            let lines = shown().map(fish_option);
            let mut script: String = lines.collect();
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

/// A command, with those that it is below.
type Path<'a> = Vec<&'a Command>;

/// All commands below this one.
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

/// The commands that take such a name.
fn takers<'a>(command: &'a Command, id: &str) -> Vec<Path<'a>> {
    let all = paths(command).into_iter();
    all.filter(|path| argument(path, id).is_some()).collect()
}

fn last<'a>(path: &Path<'a>) -> &'a str {
    path.last().map_or("", |verb| verb.get_name())
}

/// What is added for bash, which sees the words before the one that is completed.
fn bash(command: &Command) -> String {
    let words = |id: &str| -> Vec<&str> {
        let takers = takers(command, id);
        takers.iter().map(last).collect()
    };
    let (hooks, sessions) = (words(HOOK), words(SESSION));
    let named = |path: &Path<'_>| hooks.contains(&last(path)) || sessions.contains(&last(path));
    let takes = |path: &Path<'_>| {
        [HOOK, SESSION]
            .iter()
            .any(|id| argument(path, id).is_some())
    };
    let others = paths(command).into_iter();
    let others: Vec<String> = others
        .filter(|path| path.len() > 1 && named(path) && !takes(path))
        .map(|path| format!("'{} {}'", path[path.len() - 2].get_name(), last(&path)))
        .collect();
    let any = |words: &[&str], option: &str| {
        let words = words.iter().chain([&option]);
        let words: Vec<String> = words.map(|word| format!("*' {word}'")).collect();
        words.join("|")
    };
    BASH.replace("OTHERS", &others.join("|"))
        .replace("HOOKS", &any(&hooks, "--hook"))
        .replace("SESSIONS", &any(&sessions, "--session"))
}

/// Who says what may stand there.
fn zsh_source(line: &str) -> &'static str {
    let argument = line.trim_start_matches(['\'', '*', ':']);
    let wants = |id: &str| {
        argument.starts_with(&format!("{id} -- ")) || argument.contains(&format!("--{id}=["))
    };
    match (wants(HOOK), wants(SESSION)) {
        (true, _) => "_becket_hooks",
        (_, true) => "_becket_sessions",
        _ => "_default",
    }
}

fn fish_option(line: &str) -> String {
    let source = match line.strip_suffix(" -r") {
        Some(line) if line.contains(" -l hook ") => fish_source(HOOK, line),
        Some(line) if line.contains(" -l session ") => fish_source(SESSION, line),
        _ => return format!("{line}\n"),
    };
    format!("{} -x -a \"({source})\"\n", line.trim_end_matches(" -r"))
}

/// Who says what may stand there; `help` tells whether a title may.
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
        // What comes after it is no name.
        when += &format!("; and __fish_is_nth_token {}", path.len() + 1);
    }
    Some(format!(
        "complete -c becket -n \"{when}\" -f -a \"({source})\"\n"
    ))
}

/// What `--help` keeps to itself, clap offers all the same. A word that another verb shows stays.
fn hidden(command: &Command) -> Vec<String> {
    let mut words = Vec::new();
    collect(command, &mut words);
    let (hidden, shown): (Vec<_>, Vec<_>) = words.into_iter().partition(|(hides, _)| *hides);
    let is_shown = |word: &String| shown.iter().any(|(_, it)| it == word);
    let hidden = hidden.into_iter().map(|(_, word)| word);
    hidden.filter(|word| !is_shown(word)).collect()
}

fn bash_without(script: &str, hidden: &[String]) -> String {
    // Nor what only stands for a word.
    let stands_for = |word: &str| word.starts_with(['[', '<']);
    let is_offered = |word: &&str| !stands_for(word) && !hidden.iter().any(|it| it == word);
    let lines = script.lines().map(|line| match line.split_once("opts=\"") {
        Some((indent, offered)) if !offered.starts_with('"') => {
            let offered = offered.trim_end_matches('"').split(' ');
            let offered: Vec<&str> = offered.filter(is_offered).collect();
            format!("{indent}opts=\"{}\"\n", offered.join(" "))
        }
        _ => format!("{line}\n"),
    });
    lines.collect()
}

/// Whether a line of zsh's or fish's script offers such a word.
fn offers(line: &str, hidden: &[String]) -> bool {
    let offers = |word: &String| match word.strip_prefix("--") {
        Some(option) => {
            line.contains(&format!(" -l {option} "))
                || [format!("{word}["), format!("{word}=[")].iter().any(|zsh| {
                    line.trim_start_matches(['\'', '(', ')', '*'])
                        .starts_with(zsh)
                })
        }
        None => {
            line.starts_with(&format!("'{word}:")) || line.contains(&format!(" -f -a \"{word}\" "))
        }
    };
    hidden.iter().any(offers)
}

/// The words of a command and of all below it, and whether `--help` hides each.
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

/// The script with this before where that begins; at its end if it never does.
fn before(script: &str, mark: &str, ours: &str) -> String {
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
        let ours = add(&theirs, shell, &command);
        (theirs, ours)
    }

    /// What was put in, line by line.
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
