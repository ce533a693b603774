//! However the bytes come, the same is found.

use proptest::prelude::*;

use super::super::*;

const LINES: [&[u8]; 5] = [
    recorded!("parallel"),
    recorded!("print-subagent"),
    recorded!("compaction"),
    recorded!("api-error"),
    b"\xff{not json\n\n{\"type\":\"user\",\"message\":7}\n{\"type\":null}\n{\"cut",
];

fn in_one(bytes: &[u8]) -> (Vec<Finding>, Figures, Unread) {
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

    #[test]
    fn any_bytes_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let mut tail = Tail::default();
        tail.push(&bytes);
        tail.push(b"\n");
        let last = br#"{"type":"system","subtype":"turn_duration"}"#;
        tail.push(last);
        prop_assert_eq!(tail.push(b"\n").len(), 1);
    }

    /// A field of another type than ever before is no reason to stop reading.
    #[test]
    fn any_value_in_any_field(value in "null|7|-1|\"x\"|\\[\\]|\\{\\}|true|\\[\\{\\}\\]|1e300") {
        for kind in ["user", "assistant", "system", "cost-state"] {
            for field in ["message", "timestamp", "isSidechain", "agentId", "subtype", "error",
                "isApiErrorMessage", "toolDenialKind", "totalCostUSD", "compactMetadata"]
            {
                let line = format!("{{\"type\":\"{kind}\",\"{field}\":{value}}}\n");
                let (_, _, unread) = in_one(line.as_bytes());
                prop_assert_eq!(unread, Unread::default());
            }
        }
    }
}
