//! Redirections and here-documents.

use tree_sitter::Node;

use super::super::act::{Access, Content, Fed};
use super::shell::{Output, Shell};
use super::syntax::{Kind, children, kind, text};
use super::word::Value;

/// Where the standard streams of a statement go.
#[derive(Default)]
pub(super) struct Redirects<'t> {
    pub(super) stdin: Option<Output>,
    pub(super) stdout: Option<Value>,
    /// It begins anew: `>`, not `>>`.
    pub(super) anew: bool,
    pub(super) touches: Vec<(Value, Access)>,
    /// Words and statements that the grammar hangs below a here-document.
    pub(super) words: Vec<Node<'t>>,
    pub(super) after: Vec<Node<'t>>,
}

impl Shell<'_> {
    /// The touches of redirections belong to the last act of the statement; then what stands behind a here-document.
    pub(super) fn finish(
        &mut self,
        redirects: Redirects,
        source: &str,
        output: Output,
        first: usize,
    ) -> Output {
        let act = (self.read.acts.len() > first).then(|| self.read.acts.len() - 1);
        let act = self.emptied(&redirects, &output).or(act);
        for (target, access) in &redirects.touches {
            self.touch(target, *access, false, act);
        }
        let mut output = self.settle(&redirects, &output).unwrap_or(output);
        for node in redirects.after {
            output = match kind(node) {
                Kind::Pipeline => self.pipeline(node, source, &output),
                _ => output.then(self.statement(node, source, &Output::Nothing)),
            };
        }
        output
    }

    /// `: > file` is `truncate -s 0 file`.
    pub(super) fn emptied(&mut self, redirects: &Redirects, output: &Output) -> Option<usize> {
        let target = redirects.stdout.as_ref();
        let target = target.filter(|it| redirects.anew && !it.text.starts_with("/dev/"))?;
        let is_empty = match output {
            Output::Nothing => true,
            Output::Text(text, _) => text.trim().is_empty(),
            _ => false,
        };
        let args = [Value::known("-s"), Value::known("0"), target.clone()];
        is_empty.then(|| self.push_act("truncate", &args, Fed::Nothing))
    }

    /// What is printed into a file is remembered.
    pub(super) fn settle(&mut self, redirects: &Redirects, output: &Output) -> Option<Output> {
        let target = redirects.stdout.as_ref()?;
        if let Some(path) = self.absolute(target) {
            self.write_file(path, output.clone());
        }
        Some(Output::Nothing)
    }

    pub(super) fn write_file(&mut self, path: String, output: Output) {
        if !self.take_room(2 * (path.len() + output.size())) {
            return;
        }
        let content = match &output {
            Output::Nothing => Some(Content::Text(String::new())),
            Output::Text(text, false) => Some(Content::Text(text.clone())),
            Output::File => Some(Content::Copy),
            _ => None,
        };
        let content = content.map(|content| (path.clone(), content));
        self.read.written.extend(content);
        let old = self.files.remove(&path).unwrap_or_default();
        // `>` and `>>` alike: the old text is read once more at most.
        self.files.insert(path, old.then(output));
    }

    pub(super) fn redirect<'t>(&mut self, node: Node<'t>, source: &str, into: &mut Redirects<'t>) {
        match kind(node) {
            Kind::Herestring => {
                for (_, word) in children(node).filter(|(kind, _)| *kind != Kind::Token) {
                    let value = self.single(word, source);
                    into.stdin = Some(value.printed());
                }
            }
            Kind::Heredoc => self.heredoc(node, source, into),
            _ => self.file_redirect(node, source, into),
        }
    }

    fn file_redirect<'t>(&mut self, node: Node<'t>, source: &str, into: &mut Redirects<'t>) {
        let mut descriptor = "";
        let mut operator = "";
        for (kind, child) in children(node) {
            match kind {
                Kind::Descriptor => descriptor = text(child, source),
                Kind::Token => operator = text(child, source),
                Kind::Error => {}
                _ => {
                    let target = self.single(child, source);
                    if operator.ends_with('&')
                        && target.text.bytes().all(|b| b.is_ascii_digit() || b == b'-')
                    {
                        continue;
                    }
                    if operator.starts_with('<') {
                        into.stdin = Some(self.printed_by_file(&target));
                        into.touches.push((target, Access::Read));
                    } else {
                        into.touches.push((target.clone(), Access::Write));
                        if matches!(descriptor, "" | "1") {
                            into.stdout = Some(target);
                            into.anew = operator == ">" || operator == ">|";
                        }
                    }
                }
            }
        }
    }

    /// What reading a file gives, as far as the script tells.
    pub(super) fn printed_by_file(&self, file: &Value) -> Output {
        if file.text.starts_with("/dev/tcp/") || file.network {
            return Output::Network;
        }
        let Some(path) = self.absolute(file) else {
            return Output::Opaque;
        };
        let special = ["/dev/", "/proc/"];
        match self.files.get(&path) {
            Some(content) => content.clone(),
            None if path == "/dev/null" => Output::Nothing,
            None if special.iter().any(|folder| path.starts_with(folder)) => Output::Opaque,
            None => Output::File,
        }
    }

    fn heredoc<'t>(&mut self, node: Node<'t>, source: &str, into: &mut Redirects<'t>) {
        let mut raw = false;
        let mut tabs = false;
        let mut after = false;
        for (kind, child) in children(node) {
            match kind {
                Kind::HeredocStart => raw = text(child, source).contains(['\'', '"', '\\']),
                Kind::HeredocBody => {
                    let mut body = if raw {
                        Value {
                            text: text(child, source).to_owned(),
                            ..Value::default()
                        }
                    } else {
                        self.pieces(child, source)
                    };
                    if tabs {
                        body.text = body
                            .text
                            .lines()
                            .map(|line| line.trim_start_matches('\t').to_owned() + "\n")
                            .collect();
                    }
                    into.stdin = Some(body.printed());
                }
                Kind::FileRedirect | Kind::Herestring | Kind::Heredoc => {
                    self.redirect(child, source, into);
                }
                Kind::Token => {
                    let token = text(child, source);
                    tabs |= token == "<<-";
                    after |= matches!(token, "&&" | "||");
                }
                Kind::Pipeline => into.after.push(child),
                Kind::Other | Kind::Error => {}
                _ if after => into.after.push(child),
                _ => into.words.push(child),
            }
        }
    }
}
