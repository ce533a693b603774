//! What a Bash command would do, read from its syntax tree.

use std::cell::RefCell;
use std::path::Path;

use tree_sitter::{Node, Parser};

use super::act::{Act, Touch, Word};

/// What a command would do.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Read {
    pub acts: Vec<Act>,
    /// By their words: symlinks are not followed.
    pub touches: Vec<Touch>,
    pub unread: Vec<String>,
}

thread_local! {
    static PARSER: RefCell<Option<Parser>> = const { RefCell::new(None) };
}

/// What a Bash command would do. Reads no file.
pub fn read(command: &str, cwd: &Path, _home: &Path) -> Read {
    let mut read = Read::default();
    let tree = PARSER.with_borrow_mut(|parser| {
        let parser = parser.get_or_insert_with(|| {
            let mut parser = Parser::new();
            let _ = parser.set_language(&tree_sitter_bash::LANGUAGE.into());
            parser
        });
        parser.parse(command, None)
    });
    let Some(tree) = tree else {
        read.unread.push("not parsed".into());
        return read;
    };
    let mut nodes = vec![tree.root_node()];
    while let Some(node) = nodes.pop() {
        if node.kind() == "command" {
            read.acts.push(act(node, command, cwd));
        }
        let mut cursor = node.walk();
        let mut children: Vec<Node> = node.children(&mut cursor).collect();
        children.reverse();
        nodes.extend(children);
    }
    read
}

fn act(node: Node, source: &str, cwd: &Path) -> Act {
    let mut cursor = node.walk();
    let mut words = node
        .named_children(&mut cursor)
        .filter(|child| child.kind() != "variable_assignment")
        .map(|child| {
            source[child.byte_range()]
                .trim_matches(['"', '\''])
                .to_owned()
        });
    Act {
        program: words.next().unwrap_or_default(),
        args: words
            .map(|text| Word {
                text,
                opaque: false,
            })
            .collect(),
        cwd: Some(cwd.to_path_buf()),
        ..Act::default()
    }
}
