//! The syntax tree of a script, with the kinds of nodes as an enum: comparing names costs more than the walk.

use std::cell::RefCell;
use std::ops::ControlFlow;
use std::sync::LazyLock;
use std::time::Instant;

use tree_sitter::{Language, Node, ParseOptions, ParseState, Parser, Tree, TreeCursor};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Sequence,
    List,
    Pipeline,
    Subshell,
    Command,
    CommandName,
    Redirected,
    FileRedirect,
    Heredoc,
    HeredocStart,
    HeredocBody,
    Herestring,
    Descriptor,
    Assignment,
    Declaration,
    Unset,
    Function,
    If,
    Branch,
    Case,
    CaseItem,
    While,
    For,
    Text,
    Quoted,
    Raw,
    AnsiC,
    Concatenation,
    Variable,
    Expansion,
    Substitution,
    Process,
    Array,
    Subscript,
    VariableName,
    StringContent,
    Error,
    /// A token such as `;`.
    Token,
    Other,
}

static KINDS: LazyLock<Vec<Kind>> = LazyLock::new(|| {
    let language: Language = tree_sitter_bash::LANGUAGE.into();
    let kind = |id: u16| {
        if !language.node_kind_is_named(id) {
            return Kind::Token;
        }
        match language.node_kind_for_id(id).unwrap_or_default() {
            "program"
            | "compound_statement"
            | "do_group"
            | "negated_command"
            | "variable_assignments" => Kind::Sequence,
            "list" => Kind::List,
            "pipeline" => Kind::Pipeline,
            "subshell" => Kind::Subshell,
            "command" => Kind::Command,
            "command_name" => Kind::CommandName,
            "redirected_statement" => Kind::Redirected,
            "file_redirect" => Kind::FileRedirect,
            "heredoc_redirect" => Kind::Heredoc,
            "heredoc_start" => Kind::HeredocStart,
            "heredoc_body" => Kind::HeredocBody,
            "herestring_redirect" => Kind::Herestring,
            "file_descriptor" => Kind::Descriptor,
            "variable_assignment" => Kind::Assignment,
            "declaration_command" => Kind::Declaration,
            "unset_command" => Kind::Unset,
            "function_definition" => Kind::Function,
            "if_statement" => Kind::If,
            "elif_clause" | "else_clause" => Kind::Branch,
            "case_statement" => Kind::Case,
            "case_item" => Kind::CaseItem,
            "while_statement" | "c_style_for_statement" => Kind::While,
            "for_statement" => Kind::For,
            "word" | "number" | "extglob_pattern" | "regex" | "brace_expression"
            | "test_operator" => Kind::Text,
            "string" | "translated_string" => Kind::Quoted,
            "raw_string" => Kind::Raw,
            "ansi_c_string" => Kind::AnsiC,
            "concatenation" => Kind::Concatenation,
            "simple_expansion" => Kind::Variable,
            "expansion" => Kind::Expansion,
            "command_substitution" => Kind::Substitution,
            "process_substitution" => Kind::Process,
            "array" => Kind::Array,
            "subscript" => Kind::Subscript,
            "variable_name" | "special_variable_name" => Kind::VariableName,
            "string_content" | "heredoc_content" => Kind::StringContent,
            _ => Kind::Other,
        }
    };
    (0..u16::try_from(language.node_kind_count()).unwrap_or(u16::MAX))
        .map(kind)
        .collect()
});

pub(super) fn kind(node: Node) -> Kind {
    // The id of ERROR is past the table.
    KINDS
        .get(usize::from(node.kind_id()))
        .copied()
        .unwrap_or(Kind::Error)
}

thread_local! {
    static PARSER: RefCell<Option<Parser>> = const { RefCell::new(None) };
}

/// The tree of `text`, or nothing if it takes longer than `by`.
pub(super) fn parse(text: &str, by: Instant) -> Option<Tree> {
    PARSER.with_borrow_mut(|parser| {
        if parser.is_none() {
            let mut new = Parser::new();
            new.set_language(&tree_sitter_bash::LANGUAGE.into()).ok()?;
            *parser = Some(new);
        }
        let parser = parser.as_mut()?;
        let mut rounds = 0_u32;
        let mut late = |_: &ParseState| {
            rounds += 1;
            if rounds.is_multiple_of(16) && Instant::now() > by {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        };
        // The grammar's scanner gives any character to `isdigit` of C, which reads past its table for
        // what is not Latin. A dot is a part of a word as they are, and the places stay the same.
        let plain = |byte: u8| {
            if byte.is_ascii() && byte != 0 {
                byte
            } else {
                b'.'
            }
        };
        // A pipeline that ends with the text, not with a line, costs the parser ten times as much.
        let bytes: Vec<u8> = text.bytes().map(plain).chain([b'\n']).collect();
        let options = ParseOptions::new().progress_callback(&mut late);
        let tree = parser.parse_with_options(
            &mut |at, _| bytes.get(at..).unwrap_or_default(),
            None,
            Some(options),
        );
        if tree.is_none() {
            parser.reset();
        }
        tree
    })
}

/// The children of a node, in order, tokens included.
pub(super) fn children(node: Node<'_>) -> Children<'_> {
    let mut cursor = node.walk();
    let more = cursor.goto_first_child();
    Children { cursor, more }
}

pub(super) struct Children<'t> {
    cursor: TreeCursor<'t>,
    more: bool,
}

impl<'t> Iterator for Children<'t> {
    type Item = (Kind, Node<'t>);

    fn next(&mut self) -> Option<Self::Item> {
        if !self.more {
            return None;
        }
        let node = self.cursor.node();
        self.more = self.cursor.goto_next_sibling();
        Some((kind(node), node))
    }
}

pub(super) fn text<'s>(node: Node, source: &'s str) -> &'s str {
    let end = node.end_byte().min(source.len());
    source.get(node.start_byte()..end).unwrap_or_default()
}

/// The grammar does not know `{rm,-rf,/}` as a command: a wrapper before it makes it an argument.
pub(super) fn braces_first(script: &str) -> Option<String> {
    let bytes = script.as_bytes();
    let mut made = String::new();
    let mut done = 0;
    for at in memchr::memchr_iter(b'{', bytes) {
        let before = script[..at].trim_end_matches([' ', '\t']);
        let first = before.is_empty() || before.ends_with([';', '&', '|', '(', '\n', '`']);
        if !first {
            continue;
        }
        let word = script[at..]
            .split([' ', '\t', '\n', ';'])
            .next()
            .unwrap_or_default();
        if word.contains(',') && word.contains('}') {
            made.push_str(&script[done..at]);
            made.push_str("command ");
            done = at;
        }
    }
    (!made.is_empty()).then(|| made + &script[done..])
}
