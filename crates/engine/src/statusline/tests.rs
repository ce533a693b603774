use becket_wire::session::Figures;
use proptest::collection::vec;
use proptest::option::of;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::json;
use unicode_width::UnicodeWidthStr;

use super::*;
use crate::config::{KEYS, StatusLine};

const AFTER_A_TURN: &[u8] = include_bytes!("../../fixtures/statusline.json");
const BEFORE_ANY: &[u8] = include_bytes!("../../fixtures/statusline.first.json");

fn how(template: &str) -> StatusLine {
    StatusLine {
        template: Template::parse(template).unwrap(),
        bar_width: 10,
        ..StatusLine::default()
    }
}

fn by_default() -> StatusLine {
    let key = KEYS.iter().find(|key| key.path == "statusline.template");
    let default = key.and_then(|key| key.default.as_ref()?.as_str());
    how(default.unwrap())
}

fn busy() -> StatusLineContent {
    StatusLineContent {
        effort: Some("implement/plan ♥4".to_owned()),
        project: Some("becket".to_owned()),
        figures: Figures {
            context_pct: Some(43.2),
            cost_usd: Some(1.2345),
            lines_added: Some(120),
            lines_removed: Some(7),
            duration_ms: Some(3_905_000),
            model_name: Some("Opus 5.5".to_owned()),
            ..Figures::default()
        },
        waiting: 2,
        off: vec!["typecheck".to_owned(), "lint".to_owned()],
        wrong: vec!["config: 1 error".to_owned(), "disk full".to_owned()],
    }
}

fn plain(line: &StatusLineContent, template: &str, width: usize) -> String {
    render(line, &how(template), width, false)
}

#[test]
fn the_input_of_claude_code_is_read() {
    let reading = figures(AFTER_A_TURN).unwrap();
    let id = "7541ef66-cab1-4f90-8d34-c3e60bef32b0";
    assert_eq!(reading.session_id.as_deref(), Some(id));
    assert_eq!(reading.project.as_deref(), Some("project"));
    assert_eq!(reading.cwd.as_deref(), Some("/home/user/project"));
    let expected = Figures {
        context_pct: Some(4.0),
        context_tokens: Some(43_200),
        context_size: Some(1_000_000),
        cost_usd: Some(0.0929),
        lines_added: Some(0),
        lines_removed: Some(0),
        duration_ms: Some(2373),
        api_duration_ms: Some(13),
        model_id: Some("claude-sonnet-5-5".to_owned()),
        model_name: Some("Sonnet 5.5".to_owned()),
        from_transcript: false,
    };
    assert_eq!(reading.figures, expected);
}

#[test]
fn before_the_first_turn_the_context_is_unknown() {
    let reading = figures(BEFORE_ANY).unwrap();
    assert_eq!(reading.figures.context_pct, None);
    assert_eq!(reading.figures.context_tokens, None);
    assert_eq!(reading.figures.cost_usd, Some(0.0));
    let line = StatusLineContent::of(Ok(reading));
    assert_eq!(
        render(&line, &by_default(), 80, false),
        "project · Opus 5.5"
    );
}

#[test]
fn the_share_of_the_context_is_computed_if_it_is_missing() {
    let mut said: Value = serde_json::from_slice(AFTER_A_TURN).unwrap();
    said["context_window"]["used_percentage"] = json!(null);
    let reading = figures(said.to_string().as_bytes()).unwrap();
    assert_eq!(reading.figures.context_pct, Some(4.32));
    said["context_window"]["context_window_size"] = json!(0);
    let reading = figures(said.to_string().as_bytes()).unwrap();
    assert_eq!(reading.figures.context_pct, None);
}

#[test]
fn a_wrong_input_is_reported() {
    let told = |payload: &[u8]| {
        let line = StatusLineContent::of(figures(payload));
        render(&line, &by_default(), 80, false)
    };
    assert_eq!(told(b" \n"), "⚠ status line: nothing came");
    for odd in [&b"nope"[..], b"{", b"\0\xff\xfe", b"[1]", b"\"x\"", b"null"] {
        assert_eq!(told(odd), "⚠ status line: the input is not JSON", "{odd:?}");
    }
    let deep = [b"{\"a\":".as_slice(), &b"[".repeat(100_000)].concat();
    assert_eq!(told(&deep), "⚠ status line: the input is not JSON");
    let long = vec![b' '; MAX_PAYLOAD + 1];
    assert_eq!(told(&long), "⚠ status line: 262145 bytes came, too many");
}

#[test]
fn an_odd_field_is_unknown_and_the_rest_counts() {
    let odd = json!({
        "session_id": 7, "model": "x", "workspace": {"project_dir": "/"}, "cwd": "",
        "cost": {"total_cost_usd": -1, "total_lines_added": 3.0, "total_duration_ms": "long"},
        "context_window": {"used_percentage": 1e300, "current_usage": {"input_tokens": -5}},
    });
    let reading = figures(odd.to_string().as_bytes()).unwrap();
    let expected = StatusLineInput {
        project: Some("/".to_owned()),
        figures: Figures {
            lines_added: Some(3),
            ..Figures::default()
        },
        ..StatusLineInput::default()
    };
    assert_eq!(reading, expected);
}

#[test]
fn an_empty_part_takes_its_separator_along() {
    let mut line = busy();
    let template = "{project} | {model} {cost} | ctx {context}";
    assert_eq!(
        plain(&line, template, 80),
        "becket | Opus 5.5 $1.23 | ctx 43%"
    );
    line.figures.model_name = None;
    assert_eq!(plain(&line, template, 80), "becket | $1.23 | ctx 43%");
    line.figures.cost_usd = None;
    assert_eq!(plain(&line, template, 80), "becket | ctx 43%");
    line.project = None;
    assert_eq!(
        plain(&line, template, 80),
        "ctx 43%",
        "its word stays, the sign goes"
    );
    line.figures.context_pct = None;
    assert_eq!(plain(&line, template, 80), "");
}

#[test]
fn a_wrong_template_has_a_helpful_error() {
    let wrong = |text: &str| Template::parse(text).unwrap_err().to_string();
    insta::assert_snapshot!(wrong("{contxt}"), @"a status line has no part {contxt}; did you mean {context}?");
    insta::assert_snapshot!(wrong("{x}"), @"a status line has no part {x}; there are {project} {effort} {model} {bar} {context} {cost} {lines} {duration} {waiting} {off} {wrong}");
    insta::assert_snapshot!(wrong("{model"), @"a single brace; write {{ or }} for the sign itself");
    insta::assert_snapshot!(wrong("a } b"), @"a single brace; write {{ or }} for the sign itself");
    insta::assert_snapshot!(wrong("a\n{model}"), @"a status line is one line of plain text");
    assert_eq!(plain(&busy(), "{{{model}}} }}", 80), "{Opus 5.5} }");
    assert_eq!(
        plain(&busy(), "only words", 80),
        "",
        "nothing to show is nothing"
    );
}

#[test]
fn a_line_at_several_widths() {
    let all = "{project} · {effort} · {model} · {bar} {context} · {cost} · {lines} · {duration} · {waiting} · {off} · {wrong}";
    let lines: Vec<String> = [140, 120, 100, 80, 60, 40, 20, 10, 1]
        .iter()
        .map(|width| format!("{width:4} {}", plain(&busy(), all, *width)))
        .collect();
    insta::assert_snapshot!(lines.join("\n"));
}

#[test]
fn a_line_in_colour() {
    let mut line = busy();
    let coloured =
        |line: &StatusLineContent| render(line, &by_default(), 200, true).replace('\u{1b}', "␛");
    let mut lines = vec![coloured(&line)];
    for used in [59.9, 60.0, 80.0, 130.0] {
        line.figures.context_pct = Some(used);
        line.wrong.clear();
        lines.push(coloured(&line));
    }
    insta::assert_snapshot!(lines.join("\n"));
}

#[test]
fn figures_as_people_read_them() {
    let with = |cost, added, ms| {
        let figures = Figures {
            cost_usd: Some(cost),
            lines_added: Some(added),
            duration_ms: Some(ms),
            ..Figures::default()
        };
        let line = StatusLineContent {
            figures,
            ..StatusLineContent::default()
        };
        plain(&line, "{cost} {lines} {duration}", 80)
    };
    assert_eq!(with(0.0, 0, 900), "0s");
    assert_eq!(with(0.004, 3, 59_999), "+3 -0 59s");
    assert_eq!(
        with(0.005, u64::MAX, 60_000),
        "$0.01 +18446744073709551615 -0 1m"
    );
    assert_eq!(with(1234.5, 0, 3_600_000), "$1234.50 1h00m");
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("becket".to_owned()),
        Just("\u{1b}[31mred\u{7}\n\u{202e}x\u{9b}".to_owned()),
        Just("日本語のプロジェクト".repeat(8)),
        ".{0,60}",
    ]
}

fn line() -> impl Strategy<Value = StatusLineContent> {
    let figures = (of(0.0..200.0), of(0.0..1e6), of(any::<u64>()), of(text())).prop_map(
        |(context_pct, cost_usd, count, model_name)| Figures {
            context_pct,
            cost_usd,
            lines_added: count,
            duration_ms: count,
            model_name,
            ..Figures::default()
        },
    );
    let others = (of(text()), 0..3_usize, vec(text(), 0..3), vec(text(), 0..3));
    (figures, others).prop_map(
        |(figures, (project, waiting, off, wrong))| StatusLineContent {
            effort: None,
            project,
            figures,
            waiting,
            off,
            wrong,
        },
    )
}

fn template() -> impl Strategy<Value = StatusLine> {
    let part = select(PARTS.to_vec()).prop_map(|(part, _)| format!("{{{part}}}"));
    let between = select(vec![" · ", "", " | ctx ", "{{", "  ", "日"]);
    let slots = vec((between, part), 0..8);
    (slots, 1..30_usize).prop_map(|(slots, bar_width)| {
        let text: String = slots
            .iter()
            .flat_map(|(text, part)| [*text, part.as_str()])
            .collect();
        StatusLine {
            template: Template::parse(&text).unwrap(),
            bar_width,
            ..StatusLine::default()
        }
    })
}

proptest! {
    #[test]
    fn a_line_fits_and_is_one_line_of_plain_text(line in line(), how in template(), width in 0..200_usize) {
        let printed = render(&line, &how, width, false);
        prop_assert!(printed.width() <= width, "{width} {printed:?}");
        prop_assert!(!printed.chars().any(char::is_control), "{printed:?}");
        prop_assert!(!printed.contains('\u{202e}'), "{printed:?}");
    }

}

#[test]
fn the_width_is_that_of_claude_code() {
    assert_eq!(columns(Some("132")), 132 - MARGIN);
    assert_eq!(columns(Some("2")), 1);
    for nothing in [None, Some(""), Some("0"), Some("-3"), Some("wide")] {
        assert_eq!(columns(nothing), COLUMNS - MARGIN);
    }
}
