//! Programs that hide what they start: each file is pinned, or it is said that it cannot be told.

use super::*;
use crate::run::Program;

fn line(line: &str) -> Program {
    Program::Shell(line.to_owned())
}

fn list(words: &[&str]) -> Program {
    Program::List(words.iter().map(|word| (*word).to_owned()).collect())
}

/// As it would stand in a config.
fn written(program: &Program) -> String {
    match program {
        Program::Shell(line) => toml::Value::from(line.clone()).to_string(),
        Program::List(words) => toml::Value::from(words.clone()).to_string(),
    }
}

#[test]
fn no_way_to_write_a_command_hides_the_file_that_it_starts() {
    let world = World::new();
    for name in [
        "x",
        "y",
        "x.js",
        "x.txt",
        "my script.sh",
        "lint",
        "bin/lint",
    ] {
        world.write(&format!("project/{name}"), name);
    }
    world.write("project/package.json", "{}");
    for (program, files, open) in [
        (list(&["sh", "-c", "./x;true"]), "x", ""),
        (line("sh -c './x;true'"), "x", ""),
        (line("bash -c './x&&./y'"), "x y", ""),
        (line("bash -c '(./x)'"), "x", ""),
        (line(r"sh ./my\ script.sh"), "my script.sh", ""),
        (line("sh ./my\\ scr\\\nipt.sh"), "my script.sh", ""),
        (line(r#"sh -c "./\y""#), "y", ""),
        (line(r#"sh -c "sh -c './x;true'""#), "x", ""),
        (list(&["tool", "sh ./my\\ script.sh"]), "my script.sh", ""),
        (list(&["concurrently", "npm run z"]), "package.json", "npm"),
        (line("true # it's\n./y"), "y", ""),
        (line("cat <<END\nit's\nEND\n./y"), "y", ""),
        (line("echo \"`./x` $(./y)\""), "x y", "$(…) `…`"),
        (
            line("node -e 'require(\"./x\")'"),
            "x x.js",
            "JavaScript code",
        ),
        (
            line("python3 -c 'exec(open(\"x.txt\").read())'"),
            "x.txt",
            "Python code",
        ),
        (line("awk 'BEGIN{system(\"./y\")}'"), "y", "awk code"),
        (line("perl -e 'require\"./x\"'"), "x", "Perl code"),
        (line("perl -ne'require\"./x\"'"), "x", "Perl code"),
        (list(&["ruby", "-e", "load'./x'"]), "x", "Ruby code"),
        (
            list(&["deno", "eval", "import './x.js'"]),
            "x.js",
            "JavaScript code",
        ),
        (line("PATH=bin:/usr/bin lint"), "bin/lint lint", ""),
        (list(&["tool", "--plugins=a,./y"]), "y", ""),
        (list(&["tool", "a:y"]), "y", ""),
        (
            list(&["find", "scripts", "-exec", "sh", "{}", ";"]),
            "",
            "{…}",
        ),
        (
            line("node --no-warnings --run lint"),
            "lint package.json",
            "node",
        ),
        (line("go -C vet test ./..."), "", "go"),
        (line("cargo && fmt"), "", "cargo"),
    ] {
        let found = world.pinned(&written(&program)).join(" ");
        assert_eq!(found, files, "{program}");
        let pins = pins_of(&world.project(), &world.place()).unwrap();
        let starts = Starts::of(std::slice::from_ref(&program), &world.project(), &pins);
        assert_eq!(starts.pinned.join(" "), files, "{program}");
        let all = starts.unknown.iter().chain(&starts.runners);
        let all: Vec<&str> = all.copied().collect();
        assert_eq!(all.join(" "), open, "{program}");
    }
}

#[test]
fn quotes_without_end_end_somewhere_and_that_is_said() {
    let world = World::new();
    let deep = |depth: usize| {
        let mut text = "x".to_owned();
        for _ in 0..depth {
            let quoted = text.replace('\\', "\\\\").replace('"', "\\\"");
            text = format!("sh -c \"{quoted}\"");
        }
        let starts = Starts::of(&[line(&text)], &world.project(), &Pins::default());
        starts.unknown
    };
    assert_eq!(deep(3), [""; 0]);
    assert_eq!(deep(9), ["quotes in quotes"]);
}
