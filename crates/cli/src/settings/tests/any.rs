//! Any settings file: a tree as Claude Code's users might have it, laid out at random.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use super::registration;
use crate::settings::registration::{REGISTERED, RegisteredEvent};

#[derive(Debug, Clone)]
pub enum Node {
    Raw(String),
    Array(Vec<Node>),
    Object(Vec<(String, Node)>),
}

impl Node {
    fn raw(text: &str) -> Self {
        Self::Raw(text.to_owned())
    }

    fn object<const N: usize>(members: [(&str, Node); N]) -> Self {
        let members = members.into_iter();
        Self::Object(members.map(|(key, node)| (quoted(key), node)).collect())
    }
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// A settings file without an entry of ours.
pub fn foreign() -> impl Strategy<Value = String> {
    settings(entry().boxed(), status_line().boxed(), layout().boxed())
}

/// A settings file that may hold entries of ours, right and wrong ones.
pub fn mixed() -> impl Strategy<Value = String> {
    mixed_with(layout().boxed())
}

/// The same, but nearly always in plain JSON.
pub fn plain() -> impl Strategy<Value = String> {
    let layout = layout().prop_map(|layout| Layout {
        odd: 0,
        trailing_commas: false,
        mark: false,
        last: "",
        ..layout
    });
    mixed_with(layout.boxed())
}

fn mixed_with(layout: BoxedStrategy<Layout>) -> impl Strategy<Value = String> {
    let entry = prop_oneof![entry(), ours()];
    let line = prop_oneof![status_line(), our_line()];
    settings(entry.boxed(), line.boxed(), layout)
}

fn settings(
    entry: BoxedStrategy<Node>,
    line: BoxedStrategy<String>,
    layout: BoxedStrategy<Layout>,
) -> impl Strategy<Value = String> {
    let line = line.prop_map(|line| (String::from("\"statusLine\""), Node::Raw(line)));
    let member = prop_oneof![
        1 => line,
        3 => (key(), value()),
        2 => hooks(entry).prop_map(|hooks| (String::from("\"hooks\""), hooks)),
        1 => Just((String::from("\"disableAllHooks\""), Node::raw("true"))),
    ];
    (vec(member, 0..5), layout).prop_map(|(members, layout)| layout.write(&Node::Object(members)))
}

/// Generates a status line from before becket.
fn status_line() -> impl Strategy<Value = String> {
    let lines = select(&[
        r#"{"type":"command",  "command" : "~/bin/line --x", "padding": 0}"#,
        "{ // mine\n \"command\": \"date | cut -c1-5\", \"type\": \"command\",}",
        r#"{"type": "command", "command": "echo becket-hook --statusline"}"#,
        r#"{"type": "command", "command": "becket-hook --statusline | rev"}"#,
        r#"{"type": "static", "text": "hello"}"#,
        "\"off\"",
    ]);
    lines.prop_map(str::to_owned)
}

/// A status line of ours, right or wrong.
fn our_line() -> impl Strategy<Value = String> {
    let lines = select(&[
        r#"{"type": "command", "command": "/old/becket-hook --statusline --beside --home /h"}"#,
        r#"{"command": "'/a b/becket-hook' --statusline", "type": "command", "padding": 2}"#,
        r#"{"type": "command", "command": "becket statusline"}"#,
    ]);
    lines.prop_map(str::to_owned)
}

fn hooks(entry: BoxedStrategy<Node>) -> impl Strategy<Value = Node> {
    vec((event(), vec(group(entry), 0..3)), 0..4).prop_map(|events| {
        let events = events.into_iter();
        Node::Object(
            events
                .map(|(name, groups)| (name, Node::Array(groups)))
                .collect(),
        )
    })
}

fn event() -> impl Strategy<Value = String> {
    prop_oneof![
        8 => select(REGISTERED).prop_map(quoted),
        1 => Just(quoted("WorktreeCreate")),
        1 => Just(quoted("SomethingNew")),
        1 => Just(String::from(r#""St\u006fp""#)),
    ]
}

fn group(entry: BoxedStrategy<Node>) -> impl Strategy<Value = Node> {
    let matcher = select(&["", "*", "Bash", "Edit|Write"][..]);
    let members = (
        proptest::option::of(matcher),
        vec(entry, 0..4),
        any::<bool>(),
    );
    let group = members.prop_map(|(matcher, entries, hooks_first)| {
        let mut members = vec![(quoted("hooks"), Node::Array(entries))];
        if let Some(matcher) = matcher {
            members.push((quoted("matcher"), Node::Raw(quoted(matcher))));
        }
        if !hooks_first {
            members.reverse();
        }
        Node::Object(members)
    });
    prop_oneof![9 => group, 1 => value()]
}

fn entry() -> impl Strategy<Value = Node> {
    let commands = &[
        "npx lint",
        "becket-hook --verbose",
        "/opt/hook",
        "echo '// becket-hook'",
    ][..];
    let command = select(commands).prop_map(|command| {
        let kind = ("type", Node::raw("\"command\""));
        Node::object([kind, ("command", Node::Raw(quoted(command)))])
    });
    let others = select(&[
        r#"{"type": "http", "url": "http://127.0.0.1/"}"#,
        r#"{"command":"node x.js","timeout":5.5,"type":"command","async":true}"#,
        "{ // mine\n \"type\": \"command\", \"args\": [\"a b\", \"\\n\"], \"command\": \"/bin/x\", }",
        r#"{"type": "command", "command": "y", "if": "Bash(git *)"}"#,
    ]);
    prop_oneof![3 => command, 1 => others.prop_map(Node::raw)]
}

fn ours() -> impl Strategy<Value = Node> {
    let right = select(REGISTERED)
        .prop_map(|event| Node::Raw(registration().entry(RegisteredEvent::new(event), false)));
    let wrong = select(&[
        r#"{"type": "command", "command": "/old/becket-hook", "args": ["--event", "Stop"]}"#,
        r#"{"command": "becket-hook", "type": "command"}"#,
        r#"{"type":"command","command":"/usr/bin/becket","args":["hook"],"timeout":5}"#,
        "{\n// about ours\n\"type\": \"command\", \"command\": \"becket-hook\", \"args\": [],}",
    ]);
    prop_oneof![right, wrong.prop_map(Node::raw)]
}

fn key() -> impl Strategy<Value = String> {
    select(
        &[
            "model",
            "permissions",
            "statusLine",
            "env",
            "ключ",
            "// no comment",
            "",
        ][..],
    )
    .prop_map(quoted)
}

fn value() -> impl Strategy<Value = Node> {
    let leaf = select(&[
        "null",
        "true",
        "-1.5e3",
        "\"\"",
        "\"a, b ]}\"",
        "\"/* no */ // comment\"",
        r#""\"\\\u00e9""#,
        "\"é🪝\"",
    ]);
    let leaf = leaf.prop_map(Node::raw);
    leaf.prop_recursive(2, 8, 3, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..3).prop_map(Node::Array),
            vec((key(), inner), 0..3).prop_map(Node::Object),
        ]
    })
}

/// How the tree is laid out: a style, and choices that are used up one by one, and then again.
#[derive(Debug)]
struct Layout {
    choices: Vec<u8>,
    used: usize,
    newline: &'static str,
    step: &'static str,
    /// Of 256 gaps, how many are odd ones.
    odd: u8,
    trailing_commas: bool,
    mark: bool,
    last: &'static str,
}

fn layout() -> impl Strategy<Value = Layout> {
    let newline = select(&["\n", "\r\n", ""][..]);
    let step = select(&["  ", "\t", "       ", ""][..]);
    let last = select(&["", "\n", "\r\n", "\n\n// the end", " /* the end */"][..]);
    let odd = select(&[0, 20, 250][..]);
    let flags = (any::<bool>(), proptest::bool::weighted(0.1));
    (vec(any::<u8>(), 32), newline, step, last, odd, flags).prop_map(
        |(choices, newline, step, last, odd, (trailing_commas, mark))| Layout {
            choices,
            used: 0,
            newline,
            step,
            odd,
            trailing_commas,
            mark,
            last,
        },
    )
}

const ODD: &[&str] = &[
    "",
    " ",
    "\t ",
    "\n",
    "\r\n   ",
    "\n\n",
    " /* one */",
    "/* one\n   two */ ",
    " // line\n",
    "// line, \"hooks\": {\r\n\t",
    "\n  // line\n  ",
    " /**/ // x\n /* y */",
];

impl Layout {
    fn write(mut self, node: &Node) -> String {
        let mut text = String::from(if self.mark { "\u{feff}" } else { "" });
        self.odd_gap(&mut text);
        self.node(node, 0, &mut text);
        text.push_str(self.last);
        text
    }

    fn choice(&mut self) -> u8 {
        self.used += 1;
        self.choices[self.used % self.choices.len()]
    }

    fn odd_gap(&mut self, text: &mut String) -> bool {
        let odd = self.choice() < self.odd;
        if odd {
            text.push_str(ODD[usize::from(self.choice()) % ODD.len()]);
        }
        odd
    }

    fn new_line(&mut self, depth: usize, text: &mut String) {
        if !self.odd_gap(text) && !self.newline.is_empty() {
            text.push_str(self.newline);
            text.push_str(&self.step.repeat(depth));
        }
    }

    fn node(&mut self, node: &Node, depth: usize, text: &mut String) {
        match node {
            Node::Raw(raw) => text.push_str(raw),
            Node::Array(nodes) => self.members(("[", "]"), nodes, depth, text, Self::node),
            Node::Object(members) => self.members(("{", "}"), members, depth, text, Self::member),
        }
    }

    fn members<T>(
        &mut self,
        (open, close): (&str, &str),
        members: &[T],
        depth: usize,
        text: &mut String,
        write: impl Fn(&mut Self, &T, usize, &mut String),
    ) {
        text.push_str(open);
        for (index, member) in members.iter().enumerate() {
            self.new_line(depth + 1, text);
            write(self, member, depth + 1, text);
            self.odd_gap(text);
            if index + 1 < members.len() || self.trailing_commas {
                text.push(',');
            }
        }
        if members.is_empty() {
            self.odd_gap(text);
        } else {
            self.new_line(depth, text);
        }
        text.push_str(close);
    }

    fn member(&mut self, (key, node): &(String, Node), depth: usize, text: &mut String) {
        text.push_str(key);
        self.odd_gap(text);
        text.push(':');
        if !self.odd_gap(text) {
            text.push(' ');
        }
        self.node(node, depth, text);
    }
}
