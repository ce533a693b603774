//! Snapshots of drawings of invented sessions, and a property test: rows of any content are drawn
//! inside the area at any size of the terminal.

use becket_wire::effort::EffortBrief;
use becket_wire::question::QuestionRow;
use becket_wire::session::{AgentRow, Display, Figures, MAIN, SessionRow, Status};
use insta::assert_snapshot;
use jiff::tz::TimeZone;
use proptest::prelude::*;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::{Buffer, Cell};
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier};
use serde_json::json;

use crate::tui::answer_box::tests::{permission, two_questions};
use crate::tui::answer_box::{AnswerBox, AnswerKey, BoxState, OVER};
use crate::tui::draw::{DrawnFrame, draw};
use crate::tui::input::{Action, TextField};
use crate::tui::model::{EventLine, Focus, Mode, Model, Target};
use crate::tui::theme::{Theme, Tone};
use crate::ui::style::Glyphs;

fn shown(
    model: &Model,
    theme: &Theme,
    width: u16,
    height: u16,
) -> (Terminal<TestBackend>, DrawnFrame) {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    let mut drawn = DrawnFrame::default();
    terminal
        .draw(|frame| drawn = draw(model, theme, NOW, frame.area(), frame.buffer_mut()))
        .unwrap();
    (terminal, drawn)
}

fn picture(model: &Model, theme: &Theme, width: u16, height: u16) -> String {
    shown(model, theme, width, height).0.backend().to_string()
}

fn buffer(model: &Model, theme: &Theme) -> Buffer {
    shown(model, theme, 120, 32).0.backend().buffer().clone()
}

#[test]
fn empty() {
    assert_snapshot!(picture(&model(vec![]), &theme(), 80, 10));
}

#[test]
fn before_the_daemon_has_spoken_and_when_it_cannot_be_reached() {
    let mut model = Model::default();
    model.settle();
    assert!(picture(&model, &theme(), 80, 10).contains("Asking the daemon"));
    model.connection_error =
        Some("could not reach the daemon on /run/socket (refused); try becket doctor".into());
    assert_snapshot!(picture(&model, &theme(), 80, 10));
}

#[test]
fn eight_with_subagents() {
    let mut model = model(eight());
    events(&mut model, 30);
    assert_snapshot!(picture(&model, &theme(), 120, 32));
}

#[test]
fn eight_by_project() {
    let mut model = model(eight());
    model.act(Action::Group);
    assert_snapshot!(picture(&model, &theme(), 120, 32));
}

#[test]
fn narrow() {
    let mut model = model(eight());
    events(&mut model, 30);
    assert_snapshot!(picture(&model, &theme(), 60, 15));
}

#[test]
fn without_colour_and_unicode() {
    let mut model = model(eight());
    events(&mut model, 30);
    let theme = Theme {
        colour: false,
        glyphs: Glyphs::Ascii,
        ..theme()
    };
    let (terminal, _) = shown(&model, &theme, 100, 32);
    let buffer = terminal.backend().buffer();
    for cell in buffer.content() {
        assert!(cell.symbol().is_ascii(), "{cell:?}");
        assert_eq!((cell.fg, cell.bg), (Color::Reset, Color::Reset));
    }
    assert_snapshot!(terminal.backend());
}

#[test]
fn filtered() {
    let mut model = model(eight());
    model.act(Action::Filter);
    for c in "shop none".chars() {
        model.act(Action::Edit(crate::tui::input::Edit::Insert(c)));
    }
    assert!(picture(&model, &theme(), 80, 20).contains("No session fits."));
    for _ in 0..5 {
        model.act(Action::Edit(crate::tui::input::Edit::Back));
    }
    assert_snapshot!("typing", picture(&model, &theme(), 80, 20));
    model.act(Action::Accept);
    assert_snapshot!("accepted", picture(&model, &theme(), 80, 20));
}

#[test]
fn help() {
    let mut model = model(eight());
    model.act(Action::Help);
    assert_snapshot!(picture(&model, &theme(), 80, 24));
}

#[test]
fn a_wide_character_does_not_reach_under_the_help() {
    for title in ["日本語日本語日本語", "x日本語日本語日本語"] {
        let mut rows = many(20);
        for row in &mut rows {
            row.title = Some(title.into());
        }
        let mut model = model(rows);
        model.act(Action::Help);
        let area = Rect::new(0, 0, 80, 24);
        let mut buffer = Buffer::empty(area);
        draw(&model, &theme(), NOW, area, &mut buffer);
        for place in buffer.area.positions() {
            let wide = ratatui::text::Span::raw(buffer[place].symbol()).width() > 1;
            let next = wide.then(|| buffer[(place.x + 1, place.y)].symbol());
            assert!(
                next.is_none_or(|next| next == " "),
                "{place} hides {next:?}"
            );
        }
    }
}

#[test]
fn the_question_before_the_end() {
    let mut model = model(eight());
    model.act(Action::Step(1));
    model.act(Action::End);
    assert_snapshot!(picture(&model, &theme(), 80, 20));
}

#[test]
fn a_session_that_waits_takes_no_line_and_no_interrupt_without_a_question() {
    let mut model = model(eight());
    model.act(Action::NextWaiting);
    model.act(Action::NextWaiting);
    model.act(Action::Line);
    assert_snapshot!("refused", picture(&model, &theme(), 80, 20));
    // The reason is not cut in a narrower terminal.
    let narrow = picture(&model, &theme(), 40, 20);
    for word in ["https://example.org", "taken for one", "close this"] {
        assert!(narrow.contains(word), "{narrow}");
    }
    model.act(Action::Cancel);
    model.act(Action::Interrupt);
    assert_snapshot!("interrupt", picture(&model, &theme(), 80, 20));
}

/// Opens the box of the first waiting session for this question.
fn answer_box(question: QuestionRow) -> Model {
    let mut rows = eight();
    rows[0].question = Some(question.id);
    let mut model = model(rows);
    model.act(Action::Step(1));
    model.act(Action::OpenQuestion);
    let session = model.current().unwrap().session_id.clone();
    model.load_question(
        &session,
        Some(question.id),
        Ok(Some(Box::new(QuestionRow {
            session_id: session.clone(),
            cwd: Some("/home/user/shop/api".into()),
            ..question
        }))),
    );
    model
}

fn open_box(model: &mut Model) -> &mut AnswerBox {
    match &mut model.mode {
        Mode::Answer(open) => open,
        mode => panic!("{mode:?}"),
    }
}

/// Draws the box, and presses a key that answers.
fn press(model: &mut Model, key: AnswerKey) {
    let drawn = shown(model, &theme(), 80, 24).1.answer_box;
    open_box(model).drawn = drawn;
    assert_eq!(model.act(Action::Answer(key)), None);
}

#[test]
fn a_permission_in_the_answer_box() {
    let mut model = answer_box(QuestionRow {
        reason: Some("it writes to a database".into()),
        ..permission()
    });
    assert_snapshot!("answer_permission", picture(&model, &theme(), 80, 24));
    press(&mut model, AnswerKey::Always);
    assert_snapshot!("answer_always", picture(&model, &theme(), 80, 24));
    open_box(&mut model).over = Some(OVER.into());
    let (terminal, drawn) = shown(&model, &theme(), 80, 24);
    assert_eq!(drawn.answer_box.state, BoxState::Passive);
    let text = terminal.backend().to_string();
    assert!(text.contains("answered in the terminal"), "{text}");
    assert!(!text.contains("add this rule"), "{text}");
}

#[test]
fn questions_of_claude_in_the_answer_box() {
    let mut model = answer_box(two_questions());
    assert_snapshot!("answer_options", picture(&model, &theme(), 80, 24));
    press(&mut model, AnswerKey::Option(1));
    press(&mut model, AnswerKey::Option(3));
    assert_snapshot!("answer_several", picture(&model, &theme(), 80, 24));
}

#[test]
fn a_long_request_scrolls_to_its_end() {
    let new: Vec<String> = (1..=40).map(|nth| format!("line {nth}")).collect();
    let mut model = answer_box(QuestionRow {
        tool: "Edit".into(),
        input: json!({"file_path": "/home/user/shop/api/src/pay.rs", "old_string": "none",
            "new_string": new.join("\n")}),
        suggestions: Vec::new(),
        ..permission()
    });
    let (terminal, drawn) = shown(&model, &theme(), 80, 24);
    assert_snapshot!("answer_long", terminal.backend());
    let asks = open_box(&mut model).step().unwrap();
    assert_eq!(drawn.answer_box.state, BoxState::Asks(asks));
    open_box(&mut model).drawn = drawn.answer_box;
    model.act(Action::Scroll(isize::MIN));
    let end = picture(&model, &theme(), 80, 24);
    assert!(
        end.contains("+ line 40") && end.contains("the end"),
        "{end}"
    );
    assert!(end.contains("y yes"), "{end}");
    // What cannot be read cannot be answered.
    for (width, height) in [(39, 24), (80, 7)] {
        let (_, drawn) = shown(&model, &theme(), width, height);
        assert_eq!(drawn.answer_box.state, BoxState::Passive);
    }
}

#[test]
fn eighty_columns_show_the_command_and_every_key_that_acts() {
    let mut rows = eight();
    for asks in [None, Some(41)] {
        rows[0].question = asks;
        for glyphs in [Glyphs::Unicode, Glyphs::Ascii] {
            let mut model = model(rows.clone());
            model.act(Action::Step(1));
            let theme = Theme { glyphs, ..theme() };
            let picture = picture(&model, &theme, 80, 24);
            let foot = picture.lines().last().unwrap();
            let first = if asks.is_some() {
                "Space answer"
            } else {
                "r send"
            };
            for hint in [
                first,
                "jump",
                "a next",
                "n name",
                "i interrupt",
                "x end",
                "g group",
                "? help",
                "q quit",
            ] {
                assert!(foot.contains(hint), "{hint}: {foot}");
            }
            assert!(picture.contains("$ psql shop_dev -f"), "{picture}");
        }
    }
}

#[test]
fn what_is_typed_and_what_came_of_it() {
    let mut model = model(eight());
    model.act(Action::Line);
    for c in "use the staging database, and say when it is migrated 日本".chars() {
        model.act(Action::Edit(crate::tui::input::Edit::Insert(c)));
    }
    let last = |model: &Model, width| {
        let picture = picture(model, &theme(), width, 20);
        picture.lines().last().unwrap().to_owned()
    };
    assert_snapshot!("typed_line", last(&model, 60));
    model.act(Action::Cancel);
    model.show_message("the pane %1 shows another program; nothing was sent", true);
    assert_snapshot!("said", last(&model, 80));
}

#[test]
fn the_effort_of_a_session_has_a_line_of_its_own() {
    let mut rows = one();
    rows[0].effort = Some(EffortBrief {
        ordinal: 2,
        skill: "implement".to_owned(),
        phase: Some("build".to_owned()),
        title: Some("Pay as a guest".to_owned()),
        heartbeat: 4,
        context_pct: Some(45.2),
        ..EffortBrief::default()
    });
    let shown = picture(&model(rows), &theme(), 100, 24);
    let line = "effort 2 implement, phase build, heartbeat 4, context 45 %: Pay as a guest";
    assert!(shown.contains(line), "{shown}");
}

#[test]
fn the_events_can_have_the_focus() {
    let mut model = model(eight());
    events(&mut model, 40);
    model.act(Action::Focus);
    model.act(Action::Scroll(5));
    assert_snapshot!(picture(&model, &theme(), 80, 24));
}

#[test]
fn urgency_has_colour_and_the_selection_stands_out() {
    let mut model = model(eight());
    model.act(Action::Step(1));
    let buffer = buffer(&model, &theme());
    let find = |symbol: &str, skip: u16| {
        let rows = (skip..buffer.area.height).flat_map(|y| (0..4).map(move |x| (x, y)));
        let mut cells = rows.map(|place| &buffer[place]);
        cells.find(|cell| cell.symbol() == symbol).unwrap().clone()
    };
    assert_eq!(find("✗", 2).fg, Color::Red);
    assert_eq!(find("◆", 2).fg, Color::Yellow);
    assert!(find("○", 2).modifier.contains(Modifier::DIM));
    let reversed = |y: u16| buffer[(10, y)].modifier.contains(Modifier::REVERSED);
    let rows: Vec<u16> = (0..buffer.area.height).filter(|&y| reversed(y)).collect();
    assert_eq!(rows.len(), 1);
}

#[test]
fn motion_only_where_something_moves() {
    let (_, still) = shown(&model(vec![]), &theme(), 80, 20);
    assert_eq!((still.moves, still.next_in), (false, None));
    let mut rows = one();
    rows[0].display = Display::Done;
    rows[0].display_since = NOW - 7_200_000;
    rows[0].started_at = NOW - 7_200_000;
    let (_, quiet) = shown(&model(rows), &theme(), 120, 20);
    assert_eq!((quiet.moves, quiet.next_in), (false, Some(60_000)));
    let (_, busy) = shown(&model(one()), &theme(), 120, 20);
    assert!(busy.moves && busy.next_in <= Some(1_000));
    // A thousand sessions, of which the visible ones are done.
    let mut model = model(many(1_000));
    model.options.grouped = false;
    model.invalidate_tree();
    model.act(Action::Step(isize::MAX));
    assert!(!shown(&model, &theme(), 120, 32).1.moves);
}

/// 2026-11-15T09:00:00Z.
pub const NOW: i64 = 1_794_733_200_000;
const MINUTE: i64 = 60_000;

pub fn theme() -> Theme {
    Theme {
        colour: true,
        glyphs: Glyphs::Unicode,
        home: Some("/home/user".into()),
        zone: TimeZone::UTC,
    }
}

pub fn model(rows: Vec<SessionRow>) -> Model {
    let mut model = Model::default();
    model.put_all(rows);
    model.settle();
    let session = model.current().map(|row| row.session_id.clone());
    model.events.show_session(session);
    model
}

pub fn row(number: u32, project: &str, title: &str, display: Display, minutes: i64) -> SessionRow {
    let since = NOW - minutes * MINUTE - i64::from(number) * 1_000;
    SessionRow {
        session_id: format!("{number:08x}-1111-4222-8333-444444444444"),
        line: format!("line-{number}"),
        title: (!title.is_empty()).then(|| title.to_owned()),
        status: match display {
            Display::Working => Status::Working {
                detail: Some("Thinking".into()),
            },
            Display::Attention | Display::Checked => Status::Attention {
                reason: "Permission for Bash".into(),
            },
            Display::Error | Display::Done => Status::Idle,
        },
        status_since: since,
        doing: match display {
            Display::Working => Some("thinking".into()),
            Display::Attention => Some("wants to run: psql shop_dev -f 0042_keys.sql".into()),
            Display::Checked => Some("has a plan to approve".into()),
            Display::Error => Some("API error: 529 overloaded".into()),
            Display::Done => None,
        },
        display,
        display_since: since,
        project: Some(format!("/home/user/{project}")),
        cwd: Some(format!("/home/user/{project}")),
        model: Some("claude-opus-5-5".into()),
        attended: true,
        hooked: true,
        alive: true,
        pid: Some(4_000 + number),
        tmux_pane: Some(format!("%{number}")),
        tmux_socket: Some("/tmp/tmux".into()),
        started_at: NOW - (minutes + 37) * MINUTE,
        last_activity: since,
        figures: Figures {
            context_pct: Some(f64::from(number * 13 % 100)),
            context_tokens: Some(u64::from(number) * 26_000),
            context_size: Some(200_000),
            cost_usd: Some(f64::from(number) * 0.37),
            model_name: Some("Opus 5.5".into()),
            ..Figures::default()
        },
        ..SessionRow::default()
    }
}

fn agent(id: &str, kind: &str, status: Status, seconds: i64) -> AgentRow {
    AgentRow {
        agent_id: id.into(),
        agent_type: Some(kind.into()),
        doing: status.detail().or(status.reason()).map(str::to_owned),
        status,
        status_since: NOW - seconds * 1_000,
        started_at: NOW - 2 * seconds * 1_000,
        ..AgentRow::default()
    }
}

fn working(detail: &str) -> Status {
    Status::Working {
        detail: Some(detail.into()),
    }
}

pub fn one() -> Vec<SessionRow> {
    let mut row = row(1, "shop/api", "", Display::Working, 2);
    row.last_prompt = Some("Make the checkout idempotent: a retry must not charge twice".into());
    row.status = working("Bash");
    row.doing = Some("running: cargo test -p checkout".into());
    vec![row]
}

pub fn eight() -> Vec<SessionRow> {
    let mut waiting = row(1, "shop/api", "Idempotent checkout", Display::Attention, 4);
    waiting.waiting_for = Some(MAIN.into());
    waiting.last_prompt = Some(
        "Make the checkout idempotent: a retry with the same key must not charge twice, and the second answer must be the first one's"
            .into(),
    );
    let mut busy = row(
        2,
        "shop/api",
        "Find the slow query in the order list",
        Display::Working,
        11,
    );
    busy.agents = vec![
        agent("a1", "Explore", working("searching for: orders"), 41),
        agent("a2", "Explore", working("reading: src/orders.rs"), 30),
        AgentRow {
            parent: Some("a2".into()),
            ..agent("a3", "test-runner", working("running: cargo test"), 5)
        },
    ];
    let mut blocked = row(3, "shop/web", "日本語の見出しを直す", Display::Attention, 1);
    blocked.waiting_for = Some("b1".into());
    blocked.status = Status::Idle;
    blocked.doing = Some("wants to fetch: https://example.org".into());
    blocked.agents = vec![agent(
        "b1",
        "researcher",
        Status::Attention {
            reason: "wants to fetch: https://example.org".into(),
        },
        61,
    )];
    let mut failed = row(4, "infra", "Move the runners to arm64", Display::Error, 7);
    failed.error = Some("overloaded: API Error: 529".into());
    failed.figures.context_pct = Some(93.0);
    let seen = row(5, "infra", "Rotate the signing keys", Display::Checked, 15);
    let mut done = row(6, "notes", "", Display::Done, 25);
    done.last_prompt = Some("\u{1b}[31mred\u{1b}[0m\nSummarise the week\u{7}".into());
    done.background_tasks = 2;
    let quiet = row(7, "shop/web", "Dark mode", Display::Done, 190);
    let mut mute = row(8, "notes", "", Display::Working, 0);
    mute.figures = Figures::default();
    vec![waiting, busy, blocked, failed, seen, done, quiet, mute]
}

pub fn many(count: u32) -> Vec<SessionRow> {
    (0..count)
        .map(|number| {
            let display = Display::ALL[number as usize * 7 % 5];
            let project = format!("project-{:02}", number % 40);
            row(
                number,
                &project,
                &format!("Session number {number}"),
                display,
                i64::from(number % 300),
            )
        })
        .collect()
}

pub fn events(model: &mut Model, count: i64) {
    let told = [
        (
            "UserPromptSubmit",
            "",
            "Make the checkout idempotent",
            Tone::Strong,
        ),
        ("PreToolUse", "Grep", "idempotency_key", Tone::Working),
        ("PostToolUse", "Grep", "idempotency_key", Tone::Dim),
        (
            "PreToolUse",
            "Bash",
            "cargo test -p checkout -- retry",
            Tone::Working,
        ),
        ("PostToolUseFailure", "Bash", "exit code 101", Tone::Error),
        (
            "PermissionRequest",
            "Bash",
            "psql shop_dev -f migrations/0042_keys.sql",
            Tone::Attention,
        ),
    ];
    for seq in 0..count {
        let (event, tool, about, tone) = told[seq as usize % told.len()];
        model.events.put(EventLine {
            seq,
            at: NOW - (count - seq) * 17_000,
            event: event.into(),
            tool: tool.into(),
            about: about.into(),
            by_agent: seq % 4 == 2,
            tone,
        });
    }
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<String>(),
        "[a-z ]{0,40}",
        "(日本|👩‍👩‍👧|é|\u{301}|\u{200d}|\u{1b}\\[[0-9]{1,3}[mHJ]|\u{1b}\\]0;x\u{7}|\t|\n|\u{202e}|🇩🇪){0,12}",
    ]
}

fn status() -> impl Strategy<Value = Status> {
    prop_oneof![
        Just(Status::Idle),
        proptest::option::of(text()).prop_map(|detail| Status::Working { detail }),
        text().prop_map(|reason| Status::Attention { reason }),
    ]
}

fn any_agent() -> impl Strategy<Value = AgentRow> {
    (
        "[a-c]",
        proptest::option::of("[a-c]"),
        text(),
        status(),
        any::<i64>(),
    )
        .prop_map(|(agent_id, parent, kind, status, at)| AgentRow {
            agent_id,
            parent,
            agent_type: Some(kind),
            status,
            status_since: at,
            started_at: at,
            ..AgentRow::default()
        })
}

fn any_row() -> impl Strategy<Value = SessionRow> {
    let words = proptest::collection::vec(proptest::option::of(text()), 8);
    let agents = proptest::collection::vec(any_agent(), 0..4);
    (
        text(),
        words,
        status(),
        0..5usize,
        any::<(i64, f64, f64, bool)>(),
        agents,
    )
        .prop_map(
            |(id, mut words, status, display, (at, pct, cost, flag), agents)| {
                let mut row = SessionRow {
                    line: id.clone(),
                    session_id: id,
                    status,
                    display: Display::ALL[display],
                    display_since: at,
                    started_at: at,
                    background_tasks: u32::from(flag) * 3,
                    stale: flag,
                    attended: flag,
                    agents,
                    troubles: words.iter().flatten().cloned().collect(),
                    ..SessionRow::default()
                };
                row.figures.context_pct = Some(pct);
                row.figures.cost_usd = Some(cost);
                let fields = [
                    &mut row.title,
                    &mut row.project,
                    &mut row.cwd,
                    &mut row.model,
                    &mut row.last_prompt,
                    &mut row.waiting_reason,
                    &mut row.error,
                    &mut row.tmux_pane,
                ];
                for field in fields {
                    *field = words.pop().flatten();
                }
                row
            },
        )
}

fn mode() -> impl Strategy<Value = Mode> {
    let target = text().prop_map(|title| Target {
        key: "k".into(),
        session_id: "s".into(),
        title,
    });
    let field = text().prop_map(|text| TextField::new(&text));
    (0..9, target, field).prop_map(|(which, target, field)| match which {
        7 => {
            let mut open = AnswerBox::new(target, Some(41));
            open.load(Ok(Some(QuestionRow {
                tool: field.text(),
                input: json!({"a key": field.text()}),
                reason: Some(field.text()),
                cwd: Some(field.text()),
                ..permission()
            })));
            Mode::Answer(Box::new(open))
        }
        0 => Mode::Help,
        1 => Mode::Filter(field),
        2 => Mode::Name(target, field),
        3 => Mode::Line(target, field),
        4 => Mode::End(target, field),
        5 => Mode::Refused(field.text()),
        6 => Mode::Interrupt(target),
        _ => Mode::Normal,
    })
}

prop_compose! {
    fn view()(
        rows in proptest::collection::vec(any_row(), 0..12),
        mode in mode(),
        said in proptest::option::of(text()),
        lost in proptest::option::of(text()),
        about in text(),
        (focus, grouped) in any::<(bool, bool)>(),
        (top, back, step) in (0..40usize, 0..40usize, 0..12isize),
    ) -> Model {
        let mut model = model(rows);
        for seq in 0..30 {
            model.events.put(EventLine {
                seq,
                at: NOW + seq,
                event: about.clone(),
                tool: about.clone(),
                about: about.clone(),
                by_agent: seq % 2 == 0,
                tone: Tone::Plain,
            });
        }
        model.options.grouped = grouped;
        model.invalidate_tree();
        model.settle();
        model.step(step);
        model.mode = mode;
        model.focus = if focus { Focus::Events } else { Focus::List };
        model.top = top;
        model.events.scroll(back as isize);
        model.connection_error = lost;
        if let Some(message) = said {
            model.show_message(message, focus);
        }
        model
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn it_draws_at_any_size_and_stays_in_its_area(
        model in view(),
        width in 1..250u16,
        height in 1..80u16,
        (colour, unicode) in any::<(bool, bool)>(),
        now in prop_oneof![Just(NOW), any::<i64>()],
    ) {
        let theme = Theme { colour, glyphs: if unicode { Glyphs::Unicode } else { Glyphs::Ascii }, ..theme() };
        // The area lies inside a larger buffer whose other cells are marked.
        let whole = Rect::new(0, 0, width + 2, height + 2);
        let area = Rect::new(1, 1, width, height);
        let mut buffer = Buffer::filled(whole, Cell::new("#"));
        for y in area.rows() {
            for place in y.positions() {
                buffer[place].reset();
            }
        }
        draw(&model, &theme, now, area, &mut buffer);
        for place in whole.positions() {
            let cell = &buffer[place];
            if area.contains(place) {
                prop_assert!(!cell.symbol().chars().any(char::is_control), "{cell:?}");
                prop_assert!(unicode || cell.symbol().is_ascii(), "{cell:?}");
                let wide = ratatui::text::Span::raw(cell.symbol()).width() as u16;
                prop_assert!(place.x + wide <= area.right(), "{place} {cell:?}");
                for hidden in place.x + 1..place.x + wide {
                    let below = buffer[(hidden, place.y)].symbol();
                    prop_assert!(below.trim().is_empty(), "{place} {cell:?} hides {below}");
                }
            } else {
                prop_assert_eq!(cell.symbol(), "#", "{}", place);
            }
        }
    }
}
