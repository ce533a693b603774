//! Lines that Claude Code 2.1.325 really wrote (`fixtures/transcript`), and what may befall them.

use proptest::prelude::*;

use super::*;

macro_rules! recorded {
    ($name:literal) => {
        include_bytes!(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/fixtures/transcript/",
            $name,
            ".jsonl"
        ))
    };
}

fn told(transcript: &[u8]) -> (Vec<TranscriptFinding>, Figures) {
    let mut tail = Tail::default();
    let found = tail.push(transcript);
    assert_eq!(tail.unread(), UnreadLines::default());
    (found, tail.figures())
}

/// What happened to the turn, without its calls and the usage.
fn turn(transcript: &[u8]) -> Vec<TranscriptFact> {
    let (found, _) = told(transcript);
    let whats = found.into_iter().map(|finding| finding.fact);
    whats
        .filter(|what| {
            !matches!(
                what,
                TranscriptFact::Usage | TranscriptFact::ToolCall { .. }
            )
        })
        .collect()
}

fn result(id: &str) -> TranscriptFact {
    TranscriptFact::ToolResult {
        tool_use_id: id.to_owned(),
        refused: false,
    }
}

#[test]
fn esc_while_the_model_speaks_or_thinks() {
    assert_eq!(
        turn(recorded!("esc-while-it-speaks")),
        [TranscriptFact::Interrupted]
    );
    let thinks = turn(recorded!("esc-while-it-thinks"));
    assert_eq!(
        thinks,
        [result("toolu_013cf9000002"), TranscriptFact::Interrupted]
    );
}

/// The prompt goes back into the input, and the transcript keeps silent: `session_file` tells.
#[test]
fn esc_before_the_first_word_is_not_told() {
    assert_eq!(turn(recorded!("esc-before-it-speaks")), []);
}

#[test]
fn esc_while_a_tool_runs_looks_like_a_refusal() {
    let found = turn(recorded!("esc-while-a-tool-runs"));
    assert_eq!(
        found,
        [result("toolu_013e7e000002"), TranscriptFact::Interrupted]
    );
}

#[test]
fn a_refused_permission_ends_the_turn() {
    let esc = turn(recorded!("esc-at-a-dialog"));
    let refused = |id| {
        [
            result(id),
            TranscriptFact::Interrupted,
            TranscriptFact::TurnEnded,
        ]
    };
    assert_eq!(esc, refused("toolu_014893000002"));
    let no = turn(recorded!("permission-no"));
    assert_eq!(no, refused("toolu_014054000002"));
}

#[test]
fn a_granted_permission_shows_in_the_result() {
    let (found, figures) = told(recorded!("permission-yes"));
    let at = |wanted: &TranscriptFact| found.iter().find(|f| f.fact == *wanted).unwrap().at;
    assert_eq!(at(&result("toolu_01244a000002")), Some(1_794_747_445_830));
    assert_eq!(at(&TranscriptFact::TurnEnded), Some(1_794_747_445_960));
    assert!(found.iter().all(TranscriptFinding::is_main));
    assert_eq!(figures.context_tokens, Some(1200));
}

#[test]
fn a_turn_that_died_says_why() {
    let found = turn(recorded!("api-error"));
    let died = TranscriptFact::ApiError {
        error: Some("unknown".into()),
        text: Some("API Error: 400 no such thing".into()),
    };
    assert_eq!(found, [died, TranscriptFact::TurnEnded]);
}

/// Three replies of the main agent, and Claude Code's own account, which holds the subagent too.
#[test]
fn print_mode_has_context_and_cost() {
    let (found, figures) = told(recorded!("print"));
    let replies = found.iter().filter(|it| it.fact == TranscriptFact::Usage);
    assert_eq!(replies.count(), 3);
    assert_eq!(figures.context_tokens, Some(5000));
    assert_eq!(figures.context_size, Some(1_000_000));
    assert_eq!(figures.context_pct, Some(0.5));
    assert_eq!(figures.cost_usd, Some(0.057_300_000_000_000_004));
    assert_eq!(figures.model_id.as_deref(), Some("claude-opus-5-5"));
    assert!(figures.from_transcript);
}

#[test]
fn a_subagent_never_speaks_for_the_main_agent() {
    let (found, figures) = told(recorded!("print-subagent"));
    assert!(!found.is_empty());
    for finding in &found {
        assert_eq!(finding.agent.as_deref(), Some("a215c26c16439c258"));
    }
    assert_eq!(figures.context_tokens, None);
    assert!(figures.cost_usd.is_some_and(|cost| cost > 0.0));
    let old = String::from_utf8_lossy(recorded!("print-subagent"));
    let old = old.replace("\"agentId\":\"a215c26c16439c258\",", "");
    assert!(told(old.as_bytes()).0.iter().all(|f| !f.is_main()));
}

#[test]
fn compaction_empties_the_window() {
    let all: &[u8] = recorded!("compaction");
    let boundary = memchr::memmem::find(all, b"compact_boundary").unwrap();
    let end = boundary + memchr::memchr(b'\n', &all[boundary..]).unwrap();
    let (_, figures) = told(&all[..=end]);
    assert_eq!(figures.context_tokens, Some(2857));
    assert_eq!(told(all).1.context_tokens, Some(1200));
}

/// A typed prompt with the text of an interrupt is not an interrupt.
#[test]
fn typed_words_are_no_interrupt() {
    let typed = br#"{"type":"user","message":{"content":"[Request interrupted by user]"}}"#;
    let mut tail = Tail::default();
    assert_eq!(tail.push(&[typed, &b"\n"[..]].concat()), []);
}

#[test]
fn unreadable_lines_are_counted_and_skipped() {
    let mut tail = Tail::default();
    let interrupt: &[u8] = recorded!("esc-while-it-speaks");
    assert_eq!(tail.push(b"{\"type\":\n\xff\xfe\n\n[]\n7\n"), []);
    assert_eq!(tail.unread().broken, 3);
    let huge = vec![b'x'; LONGEST_LINE];
    tail.push(&huge);
    assert_eq!(tail.unread().too_long, 0);
    tail.push(b"yz");
    assert_eq!(tail.unread().too_long, 1);
    assert_eq!(tail.part.capacity(), 0);
    tail.push(&huge);
    tail.push(b"end\n");
    let found = tail.push(interrupt);
    assert!(
        found
            .iter()
            .any(|finding| finding.fact == TranscriptFact::Interrupted)
    );
    assert_eq!(tail.unread().too_long, 1);
}

#[test]
fn the_tokens_of_a_turn_are_those_of_the_main_agent_since_its_prompt() {
    let line = |second: u64, id: &str, output: u64, agent: &str| {
        format!(
            r#"{{"type":"assistant","timestamp":"2026-11-15T12:00:0{second}.000Z",{agent}"message":{{"id":"{id}","model":"claude-opus-4-5","usage":{{"input_tokens":10,"cache_read_input_tokens":5,"output_tokens":{output}}}}}}}
"#
        )
    };
    let at = |second: i64| 1_794_744_000_000 + second * 1000;
    let mut tail = Tail::default();
    tail.count_since(at(2));
    let child = line(3, "c", 700, r#""agentId":"a1","#);
    let lines = [line(1, "a", 100, ""), line(3, "b", 1, ""), child];
    tail.push(lines.concat().as_bytes());
    tail.push(line(4, "b", 20, "").as_bytes());
    tail.count_since(at(2));
    let tokens = |since, input, output| TurnTokens {
        since,
        input,
        output,
    };
    assert_eq!(tail.turn(), tokens(at(2), 15, 20), "the message grew");
    tail.count_since(at(5));
    assert_eq!(tail.turn(), tokens(at(5), 0, 0), "another turn");
}

/// Some versions write the first block of a message before they know all of its output.
#[test]
fn a_message_that_grows_is_not_paid_for_twice() {
    let line = |output: u64| {
        format!(
            r#"{{"type":"assistant","message":{{"id":"m","model":"claude-opus-4-5","usage":{{"input_tokens":0,"output_tokens":{output}}}}}}}"#
        )
    };
    let (found, figures) = told(format!("{}\n{}\n", line(1), line(1000)).as_bytes());
    assert_eq!(found.len(), 2);
    assert_eq!(figures.cost_usd, Some(0.025));
}

const LINES: [&[u8]; 5] = [
    recorded!("parallel"),
    recorded!("print-subagent"),
    recorded!("compaction"),
    recorded!("api-error"),
    b"\xff{not json\n\n{\"type\":\"user\",\"message\":7}\n{\"type\":null}\n{\"cut",
];

fn in_one(bytes: &[u8]) -> (Vec<TranscriptFinding>, Figures, UnreadLines) {
    let mut tail = Tail::default();
    let found = tail.push(bytes);
    (found, tail.figures(), tail.unread())
}

proptest! {
    #[test]
    fn any_split_finds_the_same(
        order in prop::collection::vec(0..LINES.len(), 1..4),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..40),
    ) {
        let bytes: Vec<u8> = order.iter().flat_map(|at| LINES[*at]).copied().collect();
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len())).collect();
        cuts.sort_unstable();
        let mut tail = Tail::default();
        let mut found = Vec::new();
        let mut from = 0;
        for cut in cuts.into_iter().chain([bytes.len()]) {
            found.extend(tail.push(&bytes[from..cut]));
            from = cut;
        }
        prop_assert_eq!((found, tail.figures(), tail.unread()), in_one(&bytes));
    }

}
