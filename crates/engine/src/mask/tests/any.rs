//! Any JSON, with secrets put into its strings.

use proptest::prelude::*;
use serde_json::Value;

use super::*;

/// Text in which no secret can arise by chance.
fn filler() -> impl Strategy<Value = String> {
    "[a-zé😀 \n\t\"\\\\/{}\\[\\],.:0-9\u{1}\u{7f}]{0,20}"
}

#[derive(Debug, Clone)]
enum Part {
    Filler(String),
    Secret(Sample, String, String),
}

fn text() -> impl Strategy<Value = Vec<Part>> {
    let fence = prop::sample::select(vec![" ", "\n", "(", "\t", "\u{1}", "é", ", "]);
    let secret = (prop::sample::select(samples()), fence.clone(), fence)
        .prop_map(|(sample, before, after)| Part::Secret(sample, before.into(), after.into()));
    prop::collection::vec(prop_oneof![filler().prop_map(Part::Filler), secret], 0..5)
}

#[derive(Debug, Clone)]
enum Node {
    Text(Vec<Part>),
    Other(Value),
    List(Vec<Node>),
    Fields(Vec<(String, Node)>),
}

fn node() -> impl Strategy<Value = Node> {
    let other = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
    ];
    let leaf = prop_oneof![text().prop_map(Node::Text), other.prop_map(Node::Other)];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Node::List),
            prop::collection::vec((filler(), inner), 0..4).prop_map(Node::Fields),
        ]
    })
}

/// The value with its secrets, or with marks in their place; counts them.
fn value(node: &Node, marks: bool, count: &mut u32) -> Value {
    match node {
        Node::Other(value) => value.clone(),
        Node::List(list) => list.iter().map(|node| value(node, marks, count)).collect(),
        Node::Fields(fields) => {
            let unique: std::collections::BTreeMap<_, _> =
                fields.iter().map(|(key, node)| (key, node)).collect();
            let field = |(key, node): (&String, &Node)| (key.clone(), value(node, marks, count));
            Value::Object(unique.into_iter().map(field).collect())
        }
        Node::Text(parts) => Value::String(
            parts
                .iter()
                .map(|part| match part {
                    Part::Filler(filler) => filler.clone(),
                    Part::Secret(sample, fence, end) => {
                        *count += 1;
                        let Sample {
                            kind,
                            before,
                            secret,
                            after,
                        } = sample;
                        let secret = if marks {
                            mark(kind, secret)
                        } else {
                            secret.clone()
                        };
                        format!("{fence}{before}{secret}{after}{end}")
                    }
                })
                .collect(),
        ),
    }
}

/// Writes as serde does, but some characters as `\uXXXX`: any JSON may.
fn written(value: &Value, every: usize) -> String {
    let plain = if every.is_multiple_of(2) {
        value.to_string()
    } else {
        format!("{value:#}")
    };
    let mut out = String::new();
    let mut in_string = false;
    let mut escaped = false;
    let mut digits = 0;
    for (index, character) in plain.char_indices() {
        if escaped && character == 'u' {
            digits = 6; // the `u` and its four, counted down below
        }
        digits -= usize::from(digits > 0);
        let letter = in_string && !escaped && digits == 0 && character.is_ascii_alphanumeric();
        if letter && every > 3 && index.is_multiple_of(every) {
            out.push_str(&format!("\\u{:04x}", u32::from(character)));
        } else {
            out.push(character);
        }
        in_string ^= character == '"' && !escaped;
        escaped = character == '\\' && !escaped;
    }
    out
}

proptest! {
    #[test]
    fn any_json_keeps_its_shape_and_loses_its_secrets(node in node(), every in 0_usize..12) {
        let mut planted = 0;
        let original = value(&node, false, &mut planted);
        let expected = value(&node, true, &mut 0);
        let payload = written(&original, every);
        prop_assert_eq!(serde_json::from_str::<Value>(&payload).ok(), Some(original));
        let (text, count) = masked(&masker(), &payload);
        let parsed: Value = serde_json::from_str(&text).expect("still JSON");
        prop_assert_eq!(parsed, expected);
        prop_assert_eq!(count, planted);
        if planted == 0 {
            prop_assert_eq!(&text, &payload);
        }
        prop_assert_eq!(masked(&masker(), &text), (text, 0));
    }

    #[test]
    fn any_bytes_are_taken(payload in prop::collection::vec(any::<u8>(), 0..200)) {
        let masker = masker_with("pair", "[\\x80-\\xff](.)");
        let once = masker.mask(&payload).bytes.into_owned();
        if serde_json::from_slice::<Value>(&payload).is_ok() {
            prop_assert!(serde_json::from_slice::<Value>(&once).is_ok());
        }
    }
}
