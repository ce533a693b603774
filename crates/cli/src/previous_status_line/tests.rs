use std::time::Instant;

use proptest::prelude::*;

use super::escape_sequences::clean;
use super::*;

/// Nothing here takes that long unless something is broken.
const WATCHDOG: Duration = Duration::from_secs(60);

fn run(command: &str, payload: &[u8]) -> CommandOutput {
    let began = Instant::now();
    let ran = run_within(WATCHDOG, command, payload);
    assert!(began.elapsed() < WATCHDOG, "{command} was waited for");
    ran
}

#[test]
fn its_output_is_kept_and_it_gets_what_we_got() {
    let ran = run("cat; echo; printf '\\033[32mgreen'", b"{\"a\": 1}");
    assert_eq!(ran.shown, "{\"a\": 1}\n\u{1b}[32mgreen\u{1b}[0m");
    assert_eq!(ran.wrong, None);
}

#[test]
fn one_that_hangs_is_given_up() {
    // How long it takes to print that is the machine's business.
    let shown = [1, 4, 16].into_iter().find(|times| {
        let (began, time) = (Instant::now(), TIME_LIMIT * *times);
        let ran = run_within(time, "sleep 600 & printf half; wait", b"");
        assert!((time..WATCHDOG).contains(&began.elapsed()));
        assert_eq!(ran.wrong.as_deref(), Some("status line: timed out"));
        ran.shown == "half"
    });
    assert!(shown.is_some());
}

#[test]
fn a_flood_is_cut() {
    let ran = run("head -c 10000000 /dev/zero | tr '\\0' x", b"");
    assert_eq!(ran.shown, "x".repeat(MAX_BYTES));
    assert_eq!(ran.wrong.as_deref(), Some("status line: prints too much"));
}

#[test]
fn binary_is_not_shown() {
    assert_eq!(
        run("cat /bin/sh", b""),
        CommandOutput::failure("prints binary")
    );
    assert_eq!(run("printf 'a\\377b'", b"").shown, "a\u{fffd}b");
}

#[test]
fn one_that_fails_is_told_and_not_shown() {
    assert_eq!(
        run("echo no; exit 3", b""),
        CommandOutput::failure("ended with 3")
    );
    assert_eq!(
        run("echo no; kill -9 $$", b""),
        CommandOutput::failure("was killed")
    );
}

#[test]
fn one_that_does_not_read_gets_no_harm_done() {
    let ran = run("exec 0<&-; echo fine", &vec![b'x'; 1 << 20]);
    assert_eq!((ran.shown.as_str(), ran.wrong), ("fine", None));
}

#[test]
fn colours_and_links_stay_and_the_rest_goes() {
    for (said, kept) in [
        ("plain\n two \n\n", "plain\n two"),
        ("\u{1b}[1;38:5:9mx\u{1b}[0m", "\u{1b}[1;38:5:9mx\u{1b}[0m"),
        ("\u{1b}[2J\u{1b}[Hx\u{1b}[?25ly", "xy"),
        ("\u{1b}]0;title\u{7}x\u{1b}]52;c;AAAA\u{1b}\\y", "xy"),
        (
            "\u{1b}]8;;https://x.y\u{7}link",
            "\u{1b}]8;;https://x.y\u{7}link\u{1b}]8;;\u{1b}\\",
        ),
        ("\u{1b}]8;;http://x\nnext", "\nnext"),
        ("\u{1b}Pq#0\u{1b}\\x\u{1b}cy\u{1b}(Bz", "xyBz"),
        ("a\rb\tc\u{8}d\u{9b}31me\u{9d}0;t\u{7}f", "ab cdef"),
        ("\u{1b}[38;5", ""),
        ("x\u{1b}", "x"),
        ("\u{1b}[>4;2m", ""),
    ] {
        assert_eq!(clean(said), kept, "{said:?}");
    }
}

proptest! {
    #[test]
    fn what_is_kept_is_text_lines_colours_and_links(pieces in proptest::collection::vec(
        prop_oneof![
            proptest::sample::select(vec![
                "\u{1b}[", "\u{1b}]8;;", "\u{1b}]", "\u{1b}\\", "\u{7}", "m", "31", ";", "\u{1b}P",
                "\u{9b}", "\n", "x", "é", "\u{1b}", "[", "8;;u", "J",
            ]).prop_map(str::to_owned),
            ".{0,3}",
        ],
        0..12,
    )) {
        let once = clean(&pieces.concat());
        let mut rest = once.as_str();
        while let Some(at) = rest.find(|c: char| c.is_control() && c != '\n') {
            rest = &rest[at..];
            let colour = rest.strip_prefix("\u{1b}[").and_then(|body| {
                let end = body.find(|c: char| !matches!(c, '0'..='9' | ';' | ':'))?;
                body[end..].strip_prefix('m')
            });
            let link = rest.strip_prefix("\u{1b}]8;").and_then(|body| {
                let end = body.find(char::is_control)?;
                body[end..].strip_prefix('\u{7}').or_else(|| body[end..].strip_prefix("\u{1b}\\"))
            });
            rest = colour.or(link).ok_or_else(|| TestCaseError::fail(format!("{once:?}")))?;
        }
        prop_assert_eq!(clean(&once), once);
    }
}
