//! Names of hooks in the scripts for shells: clap writes what it knows, and where a hook's name is
//! wanted, these ask `becket hooks --names`. What `--help` does not list, bash does not offer.

use clap::Command;
use clap_complete::Shell;

/// What clap calls a hook's name, as an argument and as an option.
const HOOK: &str = "hook";

const BASH: &str = r#"
_becket_or_hooks() {
    _becket "$@"
    local cur="${COMP_WORDS[COMP_CWORD]}" names
    # The value follows without a space.
    [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *= ]] && compopt -o nospace
    [[ ${cur} == -* ]] && return 0
    case "${COMP_WORDS[COMP_CWORD-1]}" in
        VERBS|--hook)
            names=$(compgen -W "$("$1" hooks --names 2>/dev/null)" -- "${cur}")
            [[ -n ${names} ]] && COMPREPLY=( ${names} )
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
"#;

/// The script, with names of hooks where it would have files. Other shells get it as it is.
pub fn add(script: &str, shell: Shell, command: &Command) -> String {
    let verbs = verbs(command);
    match shell {
        Shell::Bash => {
            let ours = BASH.replace("VERBS", &verbs.join("|"));
            let script = script.replace("complete -F _becket ", "complete -F _becket_or_hooks ");
            let script = without_hidden(&script, command);
            before(&script, "\nif [[ \"${BASH_VERSINFO[0]}\"", &ours)
        }
        Shell::Zsh => {
            let lines = script.lines().map(|line| match wants_hook(line) {
                true => line.replace(":_default'", ":_becket_hooks'") + "\n",
                false => format!("{line}\n"),
            });
            let script: String = lines.collect();
            before(&script, "\nif [ \"$funcstack[1]\" = \"_becket\" ]", ZSH)
        }
        Shell::Fish => {
            let line = |verb: &str, option: &str| {
                format!(
                    "complete -c becket -n \"__fish_becket_using_subcommand {verb}\" {option}-a \"(becket hooks --names 2>/dev/null)\"\n"
                )
            };
            let names = verbs.iter().map(|verb| line(verb, "-f "));
            let has_option = |verb: &&Command| verb.get_opts().any(|arg| arg.get_id() == HOOK);
            let options = command.get_subcommands().filter(has_option);
            let options = options.map(|verb| line(verb.get_name(), "-l hook -x "));
            names
                .chain(options)
                .fold(script.to_owned(), |all, line| all + &line)
        }
        _ => script.to_owned(),
    }
}

/// The verbs that take a hook's name.
fn verbs(command: &Command) -> Vec<&str> {
    let takes = |verb: &&Command| verb.get_positionals().any(|arg| arg.get_id() == HOOK);
    let verbs = command.get_subcommands().filter(takes);
    verbs.map(Command::get_name).collect()
}

/// clap offers in bash what it keeps out of `--help`. A word that another verb shows stays.
fn without_hidden(script: &str, command: &Command) -> String {
    let mut words = Vec::new();
    collect(command, &mut words);
    let (hidden, shown): (Vec<_>, Vec<_>) = words.into_iter().partition(|(hides, _)| *hides);
    let is_among = |list: &[(bool, String)], word: &str| list.iter().any(|(_, it)| it == word);
    let is_offered = |word: &&str| !is_among(&hidden, word) || is_among(&shown, word);
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

fn wants_hook(line: &str) -> bool {
    let line = line.trim_start_matches(['\'', ':']);
    line.starts_with("hook -- ") || line.starts_with("--hook=")
}

/// The script with this before where that begins; at its end if it never does.
fn before(script: &str, mark: &str, ours: &str) -> String {
    let at = script.find(mark).unwrap_or(script.len());
    format!("{}{ours}{}", &script[..at], &script[at..])
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::args::Args;

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
