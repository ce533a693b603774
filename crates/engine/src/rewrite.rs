//! The event as it is after a hook has changed the tool's input: what the next such hook is given,
//! and what guards judge in the end.

use becket_wire::Head;
use becket_wire::event::Rest;

/// The payload with another `tool_input`; all else stays as it came, byte for byte. None if it has
/// none that could be replaced.
pub fn with_input(payload: &[u8], input: &Rest) -> Option<Vec<u8>> {
    let head = Head::read(payload).ok()?;
    let old = head.tool_input?;
    let start = old.as_ptr().addr() - payload.as_ptr().addr();
    let new = serde_json::to_string(input).ok()?;
    Some(
        [
            &payload[..start],
            new.as_bytes(),
            &payload[start + old.len()..],
        ]
        .concat(),
    )
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn command(text: &str) -> Rest {
        Rest::from_iter([("command".to_owned(), json!(text))])
    }

    #[test]
    fn only_the_input_is_another() {
        let payload =
            b" {\"a\": {\"tool_input\": 1},\n \"tool_input\" : {\"x\": [1, 2]} , \"b\":  1.50}\n";
        let new = with_input(payload, &command("ls \"x\"")).unwrap();
        let expected = " {\"a\": {\"tool_input\": 1},\n \"tool_input\" : {\"command\":\"ls \\\"x\\\"\"} , \"b\":  1.50}\n";
        assert_eq!(std::str::from_utf8(&new), Ok(expected));
    }

    #[test]
    fn where_there_is_none_nothing_is_replaced() {
        for payload in [
            "{}",
            "",
            "[1]",
            "{\"tool_input\": ",
            "{\"x\": {\"tool_input\": {}}}",
        ] {
            assert_eq!(
                with_input(payload.as_bytes(), &command("x")),
                None,
                "{payload}"
            );
        }
    }

    proptest! {
        #[test]
        fn whoever_reads_it_finds_the_new_input_and_the_rest(
            before in "\\PC{0,9}", old in "\\PC{0,9}", after in "\\PC{0,9}", new in "\\PC{0,9}",
        ) {
            let payload = json!({"a": before, "tool_input": {"command": old}, "z": after});
            let changed = with_input(payload.to_string().as_bytes(), &command(&new)).unwrap();
            let changed: Value = serde_json::from_slice(&changed).unwrap();
            prop_assert_eq!(changed, json!({"a": before, "tool_input": {"command": new}, "z": after}));
        }
    }
}
