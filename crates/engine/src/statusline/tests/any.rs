//! What holds for any line, any template and any width.

use proptest::collection::vec;
use proptest::option::of;
use proptest::prelude::*;
use proptest::sample::select;
use unicode_width::UnicodeWidthStr;

use super::*;
use crate::statusline::part::Part;

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("becket".to_owned()),
        Just("\u{1b}[31mred\u{7}\n\u{202e}x\u{9b}".to_owned()),
        Just("日本語のプロジェクト".repeat(8)),
        ".{0,60}",
    ]
}

fn line() -> impl Strategy<Value = Line> {
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
    (figures, others).prop_map(|(figures, (project, waiting, off, wrong))| Line {
        project,
        figures,
        waiting,
        off,
        wrong,
    })
}

fn template() -> impl Strategy<Value = StatusLine> {
    let part = select(Part::ALL.to_vec()).prop_map(|part| format!("{{{}}}", part.name()));
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

    #[test]
    fn colour_changes_nothing_else(line in line(), how in template(), width in 0..200_usize) {
        let coloured = render(&line, &how, width, true);
        prop_assert_eq!(strip(&coloured), render(&line, &how, width, false));
    }

    #[test]
    fn more_room_never_shows_fewer_parts(line in line(), width in 10..150_usize) {
        let how = by_default();
        let parts = |width| render(&line, &how, width, false).matches(" · ").count();
        prop_assert!(parts(width) <= parts(width + 1));
    }

    #[test]
    fn any_text_is_a_template_or_told_to_be_none(text in ".{0,40}") {
        if let Err(error) = Template::parse(&text) {
            prop_assert!(!error.to_string().is_empty());
        }
    }

    #[test]
    fn any_bytes_are_read_or_told(bytes in vec(any::<u8>(), 0..200)) {
        let line = Line::of(figures(&bytes));
        prop_assert!(line.wrong.len() == 1 || line.wrong.is_empty());
    }
}

/// Without the sequences of colour.
fn strip(text: &str) -> String {
    let mut pieces = text.split('\u{1b}');
    let first = pieces.next().unwrap_or_default().to_owned();
    pieces.fold(first, |kept, piece| {
        kept + piece.split_once('m').map_or(piece, |(_, rest)| rest)
    })
}
