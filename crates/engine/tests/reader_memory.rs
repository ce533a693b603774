//! Commands that grow a text with each statement: the reader says that it did not read them, and stays small.

use std::fs;
use std::path::Path;

use becket_engine::guard::command::read;
use rustix::process::{Resource, Rlimit, setrlimit};

/// Memory that reading one command may take, in KiB. The parser needs some of it.
const MOST: u64 = 32 * 1024;

fn times(count: usize, part: &str) -> String {
    part.repeat(count)
}

fn numbered(count: usize, part: &str) -> String {
    (0..count)
        .map(|n| part.replace("%", &n.to_string()))
        .collect()
}

/// `a` holds 60,000 characters.
fn long(rest: &str) -> String {
    format!("a={}; {rest}", times(60_000, "x"))
}

fn bombs() -> Vec<String> {
    let doubling = |step: &str| format!("a=xx; {}", times(36, step));
    let nested =
        |open: &str, close: &str| long(&format!("{}ls{}", times(45, open), times(45, close)));
    vec![
        doubling("a=$a$a; "),
        doubling("a=\"$a$a\"; "),
        doubling("a+=$a; "),
        doubling("a=$(echo $a$a); "),
        doubling("a=`echo $a$a`; "),
        doubling("printf -v a '%s%s' $a $a; "),
        doubling("a=$(printf '%s%s' $a $a); "),
        doubling("a=$(cat <<E\n$a$a\nE\n)\n"),
        doubling("read a <<< $a$a; "),
        doubling("read -r a b <<< \"$a$a y\"; "),
        doubling("a=${a//x/xx}; "),
        doubling("a=${a/x/$a}; "),
        doubling("a=${b:-$a$a}; "),
        doubling("a=${a:+$a$a}; "),
        doubling("b=a; a=${!b}$a; "),
        doubling("declare a=$a$a; "),
        doubling("export a=$a$a; "),
        doubling("eval a=$a$a; "),
        doubling("if c; then a=$a$a; fi; "),
        doubling("while c; do a=$a$a; done; "),
        doubling("case x in x) a=$a$a;; esac; "),
        doubling("c && a=$a$a; "),
        doubling("{ a=$a$a; }; "),
        doubling("f() { a=$a$a; }; f; "),
        doubling("echo $a$a > f; a=$(cat f); "),
        doubling("a=$(echo $a | tee f g | cat - f); "),
        doubling("a=$(rev <<< $a$a); "),
        doubling("a=$(tr x y <<< $a$a); "),
        doubling("mapfile a <<< $a$a; "),
        doubling("a=$(echo x | xargs -I{} echo $a$a); "),
        doubling("git config alias.z $a; a=$a$a; "),
        format!("trap '{}' EXIT; a=xx", times(36, "a=$a$a; ")),
        "a=xx; for i in 1 2 3 4 5 6; do for j in 1 2 3 4 5 6; do a=$a$a; done; done".into(),
        format!(
            "f0() {{ ls; }}; {} f36 x y",
            (1..37).fold(String::new(), |all, n| {
                all + &format!("f{n}() {{ f{} \"$@\" \"$@\"; }}; ", n - 1)
            })
        ),
        format!("a=(x y); {}", times(36, "a+=(${a[@]}); ")),
        format!("a=(x y); {}", times(36, "a=(${a[@]} ${a[@]}); ")),
        format!("set -- x y; {}", times(36, "set -- $@ $@; ")),
        long(&numbered(100, "b%=$a; ")),
        long(&times(2000, "ls $a; ")),
        long(&format!("export a; {}", times(4000, "ls; "))),
        long(&format!("cd /$a; {}", times(4000, "ls; "))),
        long(&format!("cd /$a; rm {}", times(8000, "y "))),
        long(&format!("tar cf t -C $a {}", times(8000, "y "))),
        long(&format!("cp {} $a/", times(8000, "y "))),
        long(&format!(
            "echo $a | xargs -I{{}} echo {}",
            times(2000, "{}")
        )),
        long(&format!(
            "echo $a | xargs -I{{}} sh -c '{}'",
            times(2000, "{} ")
        )),
        format!(
            "echo {} | xargs -I{{}} echo {}",
            times(20_000, "y "),
            times(20_000, "{}")
        ),
        format!(
            "parallel echo {} ::: {}",
            times(10_000, "{}"),
            times(10_000, "y ")
        ),
        format!(
            "find {} {} -delete",
            times(9000, "y "),
            times(5000, "-name z ")
        ),
        format!(
            "find {} {} -exec rm {} +",
            times(5000, "y "),
            times(3000, "-name z "),
            times(9000, "{}")
        ),
        long(&format!("echo $a | tee {}", numbered(2000, "f% "))),
        long(&format!("echo $a > f; {}", numbered(2000, "cp f g%; "))),
        long(&format!("echo $a > f; diff {}", times(2000, "<(cat f) "))),
        long(&numbered(1000, "printf -v b% $a%.0s {1..64}; ")),
        long(&format!("read {} <<< $a", numbered(9000, "b% "))),
        long(&times(90, "env b=$a ")),
        format!("unset {}", numbered(18_000, "b% ")),
        format!("env {} ls", numbered(12_000, "-u b% ")),
        format!("export {}", numbered(12_000, "b%=1 ")),
        long(&times(90, "b=$a eval ")),
        long(&format!("{}{}", times(90, "xargs "), times(40, "$a "))),
        format!(
            "{{a,b}}{{c,d}}{{e,f}}{{g,h}}{{i,j}}{{k,l}}{}",
            times(60_000, "x")
        ),
        nested("( b=$a; c=$a; ", " )"),
        nested("echo $( b=$a; ", " )"),
        nested("if b=$a; then ", "; fi"),
        format!("python3 -c 'a=\"xx\"; {}'", times(36, "a=a+a; ")),
        format!("python3 -c 'a=\"xx\"; {}'", times(36, "exec(a+a); a=a+a; ")),
        format!(
            "python3 -c 'a=\"{}\"; {}'",
            times(60_000, "x"),
            times(9000, "a.unlink();")
        ),
        format!(
            "python3 -c 'import {} as y; {}'",
            times(60_000, "x"),
            times(20_000, "y.z ")
        ),
        format!("python3 -c '{}'", times(10_000, "import y.y. as y; ")),
    ]
}

/// These stay small by themselves, and their values are unknown then.
fn bounded() -> Vec<String> {
    vec![
        format!("a=(x y); {}", times(36, "a+=(\"${a[@]}\"); ")),
        format!("a=('' ''); {}", times(36, "a=(\"${a[@]}\" \"${a[@]}\"); ")),
        format!("set -- x y; {}", times(36, "set -- \"$@\" \"$@\"; ")),
        format!(
            "seq 9 | xargs -I{{}} echo {}",
            times(60, "{a,b}{c,d}{e,f}{g,h}{i,j}{k,l}")
        ),
        format!("tr {} x <<< y", times(20_000, "a-\u{10ffff}")),
    ]
}

/// A figure of the process, in KiB.
fn figure(name: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("a status");
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let digits = line.unwrap_or_default().split_whitespace().nth(1);
    digits.and_then(|it| it.parse().ok()).expect("a number")
}

#[test]
fn what_grows_is_unread_and_takes_no_memory() {
    let most = Some(4 << 30);
    let limit = Rlimit {
        current: most,
        maximum: most,
    };
    setrlimit(Resource::As, limit).expect("a limit");
    let mut wrong = Vec::new();
    let growing = bombs().into_iter().map(|bomb| (bomb, true));
    let bounded = bounded().into_iter().map(|bomb| (bomb, false));
    for (bomb, grows) in growing.chain(bounded) {
        fs::write("/proc/self/clear_refs", "5").expect("the peak begins anew");
        let before = figure("VmRSS");
        let read = read(&bomb, Path::new("/p"), Path::new("/h"));
        let took = figure("VmHWM").saturating_sub(before);
        if grows == read.unread.is_empty() || took > MOST {
            let start: String = bomb.trim_end_matches("x").chars().take(50).collect();
            let end: String = bomb
                .chars()
                .rev()
                .take(50)
                .collect::<Vec<_>>()
                .into_iter()
                .rev()
                .collect();
            wrong.push(format!("{took} KiB, {:?}: {start} … {end}", read.unread));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Ordinary commands that are long stay readable.
#[test]
fn what_is_long_but_does_not_grow_is_read() {
    let document = times(
        1500,
        "A line of $text with some \"quotes\" and `code` in it.\n",
    )
    .replace('`', "'");
    for command in [
        format!("cat > notes.md <<'EOF'\n{document}EOF"),
        format!("cat > notes.md <<EOF\n{document}EOF\ngit add notes.md"),
        format!("git commit -m \"$(cat <<'EOF'\n{document}EOF\n)\""),
        format!(
            "python3 - <<'EOF'\n{}EOF",
            times(2000, "rows.append(read('data.csv'))\n")
        ),
        format!(
            "rm {}",
            numbered(3000, "src/components/part%.generated.ts ")
        ),
        numbered(
            100,
            "export NAME%=value; (cd part% && make) || exit 1; if ok; then echo done; fi\n",
        ),
    ] {
        let read = read(
            &command,
            Path::new("/home/dev/projects/app"),
            Path::new("/home/dev"),
        );
        assert_eq!(read.unread, [""; 0], "{}", &command[..40]);
    }
}
