//! `becket prd`: a product requirements document, written in a watched session.

use std::ffi::OsString;
use std::io::IsTerminal;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;
use serde_json::{Value, json};

use crate::failure::{Code, Failure};
use crate::launch::{ESTABLISH_TIMEOUT, Launch, Policy};
use crate::prd::{PrdDocument, PrdSession};
use crate::ui::style::{BOLD, DIM, Look};
use crate::ui::table::{Cell, Column, grid};
use crate::ui::text::{is_inert, one_line};
use crate::world::{World, project_of};

/// Write a product requirements document with Claude Code
#[derive(Debug, clap::Args)]
pub struct Prd {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, clap::Subcommand)]
enum Verb {
    Init(Init),
    Continue(Continue),
    List(List),
    Show(Show),
}

/// Begin a document, in a session of its own
#[derive(Debug, clap::Args)]
struct Init {
    /// What the document is about (default: the project's name)
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// Claude Code's own arguments; if the first one is called `claude`, it is the program
    #[arg(last = true, value_name = "claude")]
    words: Vec<OsString>,
}

/// Go on with a document, in its last session if that is still there
#[derive(Debug, clap::Args)]
struct Continue {
    /// The document (default: the one that was worked on last)
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// Claude Code's own arguments; if the first one is called `claude`, it is the program
    #[arg(last = true, value_name = "claude")]
    words: Vec<OsString>,
}

/// List the documents of this project
#[derive(Debug, clap::Args)]
struct List {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Show a document and the sessions that worked on it
#[derive(Debug, clap::Args)]
struct Show {
    /// The document (default: the one that was worked on last)
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Prd {
    pub fn run(self, world: &World) -> Result<ExitCode> {
        let project = project_of(&world.cwd);
        match self.verb {
            Verb::Init(verb) => verb.run(world, project),
            Verb::Continue(verb) => verb.run(world, project),
            Verb::List(verb) => verb.run(project),
            Verb::Show(verb) => verb.run(project),
        }
    }
}

impl Init {
    fn run(self, world: &World, project: &Path) -> Result<ExitCode> {
        must_have_terminal("init")?;
        let folder = project.file_name().unwrap_or_default().to_string_lossy();
        let name = self.name.unwrap_or_else(|| folder.into_owned());
        let document = PrdDocument::create(project, &name)?;
        let prompt = format!("Help me write the product requirements for \"{name}\".");
        let options = vec![
            "--append-system-prompt".into(),
            document.instructions().into(),
        ];
        launch(world, project, document, options, self.words, Some(prompt))
    }
}

impl Continue {
    fn run(self, world: &World, project: &Path) -> Result<ExitCode> {
        must_have_terminal("continue")?;
        let document = PrdDocument::find(project, self.name.as_deref())?;
        let (options, prompt): (Vec<String>, _) = match document.resumable() {
            Some(session) => (
                vec![
                    "--resume".to_owned(),
                    session.to_owned(),
                    "--append-system-prompt".to_owned(),
                    document.instructions(),
                ],
                None,
            ),
            None => (
                vec![
                    "--append-system-prompt".to_owned(),
                    document.instructions_with_text(),
                ],
                Some("Let us go on with the product requirements. What is still open?".to_owned()),
            ),
        };
        let options = options.into_iter().map(OsString::from).collect();
        launch(world, project, document, options, self.words, prompt)
    }
}

fn must_have_terminal(verb: &str) -> Result<()> {
    if std::io::stdin().is_terminal() && std::io::stdout().is_terminal() {
        return Ok(());
    }
    let what = format!(
        "`becket prd {verb}` opens Claude Code to talk about the document, and this is no terminal"
    );
    let hint =
        format!("run `becket prd {verb}` in a terminal; becket prd list and show work anywhere");
    Err(Failure::new(Code::Usage, what).hint(hint).into())
}

fn launch(
    world: &World,
    project: &Path,
    mut document: PrdDocument,
    options: Vec<OsString>,
    words: Vec<OsString>,
    prompt: Option<String>,
) -> Result<ExitCode> {
    let launch = Launch {
        words,
        options,
        prompt,
        cwd: project.to_path_buf(),
        agent_id: None,
        establish_timeout: ESTABLISH_TIMEOUT,
        policy: Policy::Never,
    };
    let ended = launch.run(world, &mut document)?;
    let file = document.file();
    match file.exists() {
        true => anstream::eprintln!("becket: the document is {}", file.display()),
        false => anstream::eprintln!("becket: nothing is written yet"),
    }
    anstream::eprintln!("hint: becket prd continue {}", document.slug);
    Ok(ended)
}

const COLUMNS: [Column; 4] = [
    Column::left("NAME", 0),
    Column::right("LINES", 0),
    Column::right("SESSIONS", 1),
    Column::left("LAST WORKED ON", 2),
];

impl List {
    fn run(self, project: &Path) -> Result<ExitCode> {
        let documents = PrdDocument::all(project);
        if self.json {
            let all: Vec<Value> = documents.iter().map(json).collect();
            println!("{}", Value::from(all));
        } else if documents.is_empty() {
            println!("No documents. Begin one: becket prd init NAME");
        } else {
            let row = |document: &PrdDocument| {
                let lines = document.text().map(|text| text.lines().count());
                [
                    Cell::new(&document.slug, BOLD),
                    Cell::plain(lines.map_or_else(|| "-".to_owned(), |lines| lines.to_string())),
                    Cell::plain(document.record.sessions.len().to_string()),
                    Cell::new(one_line(document.last_worked()), DIM),
                ]
            };
            let rows: Vec<_> = documents.iter().map(row).collect();
            anstream::print!("{}", grid(COLUMNS, &rows, &Look::of_stdout()));
        }
        Ok(ExitCode::SUCCESS)
    }
}

impl Show {
    fn run(self, project: &Path) -> Result<ExitCode> {
        let document = PrdDocument::find(project, self.name.as_deref())?;
        let text = document.text();
        if self.json {
            let mut all = json(&document);
            all["text"] = json!(text);
            println!("{all}");
            return Ok(ExitCode::SUCCESS);
        }
        let name = one_line(&document.record.name);
        anstream::println!(
            "{BOLD}{name}{BOLD:#}  {DIM}{}{DIM:#}",
            document.file().display()
        );
        for PrdSession {
            session_id,
            started_at,
            ended_at,
            ..
        } in &document.record.sessions
        {
            let ended = ended_at.as_deref().unwrap_or("now");
            let line = format!("{session_id}  {started_at} to {ended}");
            anstream::println!("  {DIM}{}{DIM:#}", one_line(&line));
        }
        let text = text.unwrap_or_else(|| "Nothing is written yet.\n".to_owned());
        // The document may be anybody's.
        let shown: String = text
            .chars()
            .filter(|c| *c == '\n' || is_inert(*c))
            .collect();
        anstream::print!("\n{shown}");
        Ok(ExitCode::SUCCESS)
    }
}

fn json(document: &PrdDocument) -> Value {
    json!({
        "name": document.record.name,
        "slug": document.slug,
        "path": document.file(),
        "created_at": document.record.created_at,
        "sessions": document.record.sessions,
    })
}
