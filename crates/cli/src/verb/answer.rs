//! `becket answer`: shows what sessions ask their users, and answers it.

use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;

use anyhow::Result;
use becket_wire::question::{AnsweredIn, PersonAnswer, QuestionRow};
use becket_wire::rpc::{Ask, AskReply, Response};
use serde_json::{Value, json};

use crate::client::{Client, gone, is_unreachable, require_daemon, unexpected_reply};
use crate::failure::{Code, Failure};
use crate::question::{self, LineUse};
use crate::session::source::find_session;
use crate::ui::style::{BAD, BOLD, DIM, GOOD, Look, WARN};
use crate::ui::text::{self, one_line, short_id};
use crate::ui::time::timestamp;
use crate::world::World;

/// Answer what a session asks you, from any terminal
///
/// Without arguments: list what is asked, oldest first, each request in full. The dialog in the session's
/// terminal stays open, and the first answer counts.
#[derive(Debug, clap::Args)]
pub struct AnswerArgs {
    /// The number of the question, or its session: the first characters of its id, or its title
    #[arg(value_name = "ID")]
    session: Option<String>,
    /// Your answer to a permission request
    #[arg(value_enum)]
    answer: Option<PermissionAnswer>,
    /// With `no`: the reason, for Claude
    #[arg(long, value_name = "TEXT", requires = "answer")]
    reason: Option<String>,
    /// Answer Claude's questions with these options, one for each: their labels or numbers
    #[arg(long, value_name = "LABEL", num_args = 1.., conflicts_with_all = ["answer", "text"])]
    choose: Vec<String>,
    /// Answer Claude's question with a text of yours
    #[arg(long, value_name = "TEXT", conflicts_with = "answer")]
    text: Option<String>,
    /// Print new questions as they are asked
    #[arg(long, conflicts_with_all = ["session", "answer"])]
    follow: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum PermissionAnswer {
    Yes,
    No,
    /// Yes, and add the rules that Claude Code suggests
    Always,
}

impl AnswerArgs {
    pub fn run(self, world: &World) -> Result<ExitCode> {
        require_daemon(world, "`becket answer` needs the daemon")?;
        if self.follow {
            return self.follow(world);
        }
        let mut client = Client::connect_or_start(world)?;
        let open = client.questions()?;
        let Some(meant) = &self.session else {
            self.print(&open)?;
            return Ok(ExitCode::SUCCESS);
        };
        let question = find(meant, &open, &mut client)?;
        let Some(answer) = self.given(question)? else {
            self.print(std::slice::from_ref(question))?;
            return Ok(ExitCode::SUCCESS);
        };
        world.refuse_inside_claude("answer")?;
        if answer == PersonAnswer::Always {
            for rule in question::suggested_rules(question) {
                println!("from now on allowed: {rule}");
            }
        }
        client.execute(Ask::Answer {
            id: question.id,
            answer,
            via: AnsweredIn::Command,
        })?;
        println!("sent to session {}", short_id(&question.session_id));
        Ok(ExitCode::SUCCESS)
    }

    /// Returns the answer that was given; none if the question is only to be shown.
    fn given(&self, question: &QuestionRow) -> Result<Option<PersonAnswer>> {
        if let Some(text) = &self.text {
            return answers(question, std::slice::from_ref(text), false).map(Some);
        }
        if !self.choose.is_empty() {
            return answers(question, &self.choose, true).map(Some);
        }
        Ok(self.answer.map(|answer| match answer {
            PermissionAnswer::Yes => PersonAnswer::Yes,
            PermissionAnswer::Always => PersonAnswer::Always,
            PermissionAnswer::No => PersonAnswer::No {
                reason: self.reason.clone(),
            },
        }))
    }

    fn print(&self, questions: &[QuestionRow]) -> Result<()> {
        if self.json {
            let rows: Vec<Value> = questions.iter().map(to_json).collect();
            println!("{}", text::json(&rows)?);
        } else if questions.is_empty() {
            println!("Nothing is asked.");
        } else {
            let look = Look::of_stdout();
            let texts = questions.iter().map(|row| in_full(row, &look));
            anstream::print!("{}", texts.collect::<Vec<_>>().join("\n"));
        }
        Ok(())
    }

    /// Prints each question once, until the user ends it.
    fn follow(&self, world: &World) -> Result<ExitCode> {
        let mut printed = BTreeSet::new();
        let mut client = Client::connect_or_start(world)?;
        loop {
            match self.follow_daemon(world, &mut client, &mut printed) {
                Err(error) if is_unreachable(&error) => {
                    client = Client::reconnect_or_wait(world, None)?;
                    // Another daemon holds no question of the one before.
                    printed.clear();
                }
                ended => return ended.map(|()| ExitCode::SUCCESS),
            }
        }
    }

    fn follow_daemon(
        &self,
        world: &World,
        client: &mut Client,
        printed: &mut BTreeSet<i64>,
    ) -> Result<()> {
        client.ask(Ask::Watch)?;
        loop {
            let asks = match client.next_in_stream()? {
                Response::Reply(AskReply::Sessions(rows)) => {
                    rows.iter().any(|row| row.question.is_some())
                }
                Response::Reply(AskReply::Changed(row)) => {
                    row.question.is_some_and(|id| !printed.contains(&id))
                }
                Response::Reply(AskReply::Done) => return Err(gone()),
                _ => return Err(unexpected_reply()),
            };
            if !asks {
                continue;
            }
            let mut second = Client::reconnect_once(world)?.ok_or_else(gone)?;
            for row in second.questions()? {
                if !printed.insert(row.id) {
                    continue;
                }
                if self.json {
                    println!("{}", text::json(&to_json(&row))?);
                } else {
                    anstream::println!("{}", in_full(&row, &Look::of_stdout()));
                }
            }
        }
    }
}

/// Finds the question with this number, or the only one of this session.
fn find<'a>(meant: &str, open: &'a [QuestionRow], client: &mut Client) -> Result<&'a QuestionRow> {
    if let Some(row) = open.iter().find(|row| row.id.to_string() == meant) {
        return Ok(row);
    }
    if meant.chars().all(|c| c.is_ascii_digit()) && meant.len() < 8 {
        let what = format!("no question with the number {meant} waits");
        let failure = Failure::new(Code::Missing, what);
        return Err(failure.hint("`becket answer` lists them").into());
    }
    let session = find_session(meant, |query| client.sessions(query))?.session_id;
    let mut asked = open.iter().filter(|row| row.session_id == session);
    match (asked.next(), asked.next()) {
        (Some(row), None) => Ok(row),
        (None, _) => {
            let what = format!("session {} asks nothing", short_id(&session));
            let failure = Failure::new(Code::Missing, what);
            Err(failure.hint("`becket answer` lists what is asked").into())
        }
        (Some(_), Some(_)) => {
            let what = format!("session {} asks several things", short_id(&session));
            let failure = Failure::new(Code::Usage, what);
            Err(failure
                .hint("give the number that `becket answer` shows")
                .into())
        }
    }
}

/// Makes the answers to Claude's questions. A number stands for the option at its place.
fn answers(question: &QuestionRow, given: &[String], chosen: bool) -> Result<PersonAnswer> {
    let asked = question.asked();
    if asked.is_empty() {
        let failure = Failure::new(Code::Usage, "this asks for a permission");
        return Err(failure
            .hint(format!("becket answer {} yes|no", question.id))
            .into());
    }
    if asked.len() != given.len() {
        let what = format!(
            "Claude asks {} questions, and {} were answered",
            asked.len(),
            given.len()
        );
        let failure = Failure::new(Code::Usage, what);
        return Err(failure.hint("give one answer for each question").into());
    }
    let mut answers = BTreeMap::new();
    for (asked, given) in asked.iter().zip(given) {
        let mut answer = given.clone();
        if chosen {
            let by_number = given
                .parse::<usize>()
                .ok()
                .and_then(|nth| nth.checked_sub(1));
            let by_number = by_number.and_then(|nth| asked.options.get(nth));
            let by_label = asked.options.iter();
            let mut by_label = by_label.filter(|option| option.label.eq_ignore_ascii_case(given));
            let Some(option) = by_number.or_else(|| by_label.next()) else {
                let what = format!(
                    "`{}` has no option `{}`",
                    one_line(&asked.question),
                    one_line(given)
                );
                let labels: Vec<String> =
                    asked.options.iter().map(|it| one_line(&it.label)).collect();
                return Err(Failure::new(Code::Usage, what)
                    .hint(labels.join(", "))
                    .into());
            };
            answer = option.label.clone();
        }
        answers.insert(asked.question.clone(), answer);
    }
    Ok(PersonAnswer::Answers(answers))
}

fn in_full(row: &QuestionRow, look: &Look) -> String {
    let asked = look.since(row.asked_at).unwrap_or_default();
    let session = short_id(&row.session_id);
    let what = if row.asked().is_empty() {
        format!("wants to use {}", one_line(&row.tool))
    } else {
        "asks".to_owned()
    };
    let mut out = format!(
        "{BOLD}{}{BOLD:#}  session {session} {what}  {DIM}{asked}{DIM:#}\n",
        row.id
    );
    for line in question::lines(row) {
        let style = match line.line_use {
            LineUse::Plain => anstyle::Style::new(),
            LineUse::Added => GOOD,
            LineUse::Removed => BAD,
            LineUse::Note => WARN,
        };
        out += &format!("  {style}{}{style:#}\n", line.text);
    }
    for rule in question::suggested_rules(row) {
        out += &format!("  {DIM}always allows: {rule}{DIM:#}\n");
    }
    out + &format!("  {DIM}becket answer {} {}{DIM:#}\n", row.id, ways(row))
}

/// Returns the ways to answer.
fn ways(row: &QuestionRow) -> &'static str {
    if !row.asked().is_empty() {
        "--choose NUMBER, or --text TEXT"
    } else if row.suggestions.is_empty() {
        "yes|no"
    } else {
        "yes|no|always"
    }
}

fn to_json(row: &QuestionRow) -> Value {
    json!({
        "id": row.id,
        "session_id": row.session_id,
        "agent_id": row.agent_id,
        "tool": row.tool,
        "input": row.input,
        "cwd": row.cwd,
        "asked_at": timestamp(row.asked_at),
        "reason": row.reason,
        "suggestions": row.suggestions,
        "can_be_answered": row.can_be_answered,
    })
}
