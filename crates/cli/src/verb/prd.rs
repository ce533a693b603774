//! `becket prd`: a product requirements document, written in a watched session. It stands in
//! `.becket/prd/<slug>/requirements.md`, and beside it which sessions worked on it.

use std::ffi::OsString;
use std::fs;
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Result;
use becket_daemon::lifecycle::now_ms;
use becket_engine::effort::artifact;
use becket_engine::replace::{Attempt, Snapshot, make_folder};
use becket_wire::effort::{EffortDo, EffortTold};
use becket_wire::session::SessionRow;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::failure::{Code, Failure};
use crate::launch::{ESTABLISH_TIMEOUT, Launch, Observer, RestartPolicy};
use crate::ui::style::{BOLD, DIM, Look};
use crate::ui::table::{Cell, Column, grid};
use crate::ui::text::{is_inert, one_line};
use crate::ui::time::timestamp;
use crate::verb::run::is_session_id;
use crate::work::{ask_as, here, unexpected};
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
        if let Err(why) = document.start_effort(world) {
            anstream::eprintln!("becket: no effort was started for it: {why:#}");
        }
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
    if io::stdin().is_terminal() && io::stdout().is_terminal() {
        return Ok(());
    }
    let what = format!(
        "`becket prd {verb}` opens Claude Code, which needs a terminal, and this is not one"
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
        policy: RestartPolicy::Never,
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

const LONGEST_RECORD: u64 = 1 << 20;
const LONGEST_DOCUMENT: usize = 1 << 20;
/// A document up to this goes into the instructions of a new session; a longer one is named there.
const INLINE: usize = 64 << 10;

/// One document, whether it is written yet or not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrdDocument {
    pub slug: String,
    pub folder: PathBuf,
    pub record: Record,
}

/// `sessions.json`. Times are RFC 3339.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Record {
    pub name: String,
    pub created_at: String,
    pub sessions: Vec<PrdSession>,
}

/// A session that worked on a document.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PrdSession {
    pub session_id: String,
    pub started_at: String,
    pub ended_at: Option<String>,
    pub transcript_path: Option<String>,
}

impl PrdDocument {
    /// Begins a document.
    pub fn create(project: &Path, name: &str) -> Result<Self> {
        let document = Self {
            slug: slug(name)?,
            folder: folder(project).join(slug(name)?),
            record: Record {
                name: name.to_owned(),
                created_at: timestamp(now_ms()),
                sessions: Vec::new(),
            },
        };
        if document.file().exists() || document.record_file().exists() {
            let what = format!("there is a document {} already", document.slug);
            let hint = format!("becket prd continue {}", document.slug);
            return Err(Failure::new(Code::Failed, what).hint(hint).into());
        }
        let made = make_folder(&document.folder, 0o755);
        made.and_then(|_| document.change(|_| {})).map_err(|why| {
            let what = format!("could not write {}: {why}", document.folder.display());
            let hint = "becket prd keeps its documents in the project, in .becket/prd";
            Failure::new(Code::Failed, what).hint(hint)
        })?;
        Ok(document)
    }

    /// Begins an effort of the skill `prd` in the document's folder. The session that starts next works
    /// on it.
    fn start_effort(&self, world: &World) -> Result<()> {
        let new = EffortDo::TaskNew {
            folder: self.folder.to_string_lossy().into_owned(),
            title: Some(self.record.name.clone()),
            keywords: Vec::new(),
        };
        let told = ask_as(world, here(world), new)?;
        let EffortTold::Task { task, .. } = told else {
            return Err(unexpected(&told));
        };
        let start = EffortDo::Start {
            skill: "prd".to_owned(),
            mode: None,
            task: Some(task.id),
            title: None,
        };
        ask_as(world, here(world), start).map(drop)
    }

    /// All documents of a project, the one that was worked on last first.
    pub fn all(project: &Path) -> Vec<Self> {
        let entries = fs::read_dir(folder(project))
            .into_iter()
            .flatten()
            .flatten();
        let mut found: Vec<Self> = entries
            .filter_map(|entry| Self::read(&entry.path()))
            .collect();
        found.sort_by(|one, other| other.last_worked().cmp(one.last_worked()));
        found
    }

    /// The document that is meant by its name, or the one that was worked on last.
    pub fn find(project: &Path, name: Option<&str>) -> Result<Self> {
        let wanted = name.map(slug).transpose()?;
        let found = Self::all(project)
            .into_iter()
            .find(|document| wanted.as_ref().is_none_or(|slug| *slug == document.slug));
        found.ok_or_else(|| {
            let what = match &wanted {
                Some(slug) => format!("this project has no document {slug}"),
                None => "this project has no document".to_owned(),
            };
            let hint = "becket prd list shows them; becket prd init NAME begins one";
            Failure::new(Code::Missing, what).hint(hint).into()
        })
    }

    fn read(folder: &Path) -> Option<Self> {
        let slug = folder.file_name()?.to_str()?.to_owned();
        let mut document = Self {
            slug,
            folder: folder.to_path_buf(),
            record: Record::default(),
        };
        let record = document.read_record().unwrap_or_default();
        let is_one = document.file().exists() || record.is_some();
        document.record = record.unwrap_or_default();
        is_one.then_some(document)
    }

    pub fn file(&self) -> PathBuf {
        self.folder.join("requirements.md")
    }

    fn record_file(&self) -> PathBuf {
        self.folder.join("sessions.json")
    }

    /// The document, as far as it is read. A repository may bring a link along: none is followed.
    pub fn text(&self) -> Option<String> {
        let project = self.folder.ancestors().nth(3)?;
        artifact::head(project, &self.file(), LONGEST_DOCUMENT).ok()
    }

    pub fn last_worked(&self) -> &str {
        let last = self.record.sessions.last().map(|worked| &worked.started_at);
        last.unwrap_or(&self.record.created_at)
    }

    /// The last session, if Claude Code still has its transcript.
    pub fn resumable(&self) -> Option<&str> {
        let last = self.record.sessions.last()?;
        let transcript = last.transcript_path.as_deref()?;
        Path::new(transcript).is_file().then_some(&last.session_id)
    }

    /// What the session is told besides Claude Code's own instructions.
    pub fn instructions(&self) -> String {
        let Self { slug, .. } = self;
        let (name, file) = (&self.record.name, self.file());
        format!(
            "You help the user write a product requirements document for \"{name}\". \
             Its file is {}. Ask short questions, one or two at a time, until you know the problem, \
             the users, the goals and what is out of scope. Then write the file with these parts: \
             Summary, Problem, Users, Goals, Requirements (numbered, each one testable), Out of scope, \
             Open questions. Keep it current after each answer that changes it. Write no code and \
             change no other file. The user goes on with it later by `becket prd continue {slug}`.",
            file.display()
        )
    }

    /// The same for a new session that goes on with what is written.
    pub fn instructions_with_text(&self) -> String {
        let instructions = self.instructions();
        match self.text() {
            Some(text) if text.len() <= INLINE => {
                format!("{instructions}\n\nThe document so far:\n\n{text}")
            }
            Some(_) => format!("{instructions}\n\nRead the file first: it is long."),
            None => instructions,
        }
    }

    /// The record in its file; none if there is no file. A repository may bring any file along, so
    /// only what is a session's id counts, and a link is not followed.
    fn read_record(&self) -> io::Result<Option<Record>> {
        let path = self.record_file();
        if path.is_symlink() {
            return Err(io::Error::other("it is a symbolic link"));
        }
        let file = Snapshot::read(&path, LONGEST_RECORD)?;
        let Some(bytes) = file.bytes() else {
            return Ok(None);
        };
        let mut record: Record = serde_json::from_slice(bytes)?;
        record
            .sessions
            .retain(|worked| is_session_id(&worked.session_id));
        Ok(Some(record))
    }

    /// Changes the record in its file: others may have changed it, too.
    fn change(&self, change: impl Fn(&mut Record)) -> io::Result<()> {
        loop {
            let file = Snapshot::read(&self.record_file(), LONGEST_RECORD)?;
            let mut record = self.read_record()?.unwrap_or_else(|| self.record.clone());
            change(&mut record);
            let text = format!("{}\n", serde_json::to_string_pretty(&record)?);
            if file.replace(text.as_bytes(), 0o644)? == Attempt::Done {
                return Ok(());
            }
        }
    }

    /// The same while a session goes on, which it does in any case.
    fn note(&self, change: impl Fn(&mut Record)) {
        if let Err(why) = self.change(change) {
            let file = self.record_file();
            anstream::eprintln!("becket: could not write {}: {why}", file.display());
        }
    }
}

/// A document learns of every session that works on it.
impl Observer for PrdDocument {
    fn began(&mut self, row: &SessionRow) {
        let worked = PrdSession {
            session_id: row.session_id.clone(),
            started_at: timestamp(now_ms()),
            ended_at: None,
            transcript_path: row.transcript_path.clone(),
        };
        self.note(|record| record.sessions.push(worked.clone()));
    }

    fn ended(&mut self, session_id: &str, at: i64) {
        self.note(|record| {
            let mut sessions = record.sessions.iter_mut().rev();
            if let Some(worked) = sessions.find(|worked| worked.session_id == session_id) {
                worked.ended_at = Some(timestamp(at));
            }
        });
    }
}

fn folder(project: &Path) -> PathBuf {
    project.join(".becket/prd")
}

/// A name as a folder's: lower case, words joined by dashes.
fn slug(name: &str) -> Result<String> {
    let lower = name.to_lowercase();
    let words = lower
        .split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty());
    let slug: String = words
        .collect::<Vec<_>>()
        .join("-")
        .chars()
        .take(60)
        .collect();
    if slug.is_empty() {
        let what = format!("`{name}` has no letter or digit in it");
        let failure = Failure::new(Code::Usage, what);
        return Err(failure.hint("becket prd init \"Guest checkout\"").into());
    }
    Ok(slug)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: &str = "11111111-1111-4111-8111-111111111111";
    const SECOND: &str = "22222222-2222-4222-8222-222222222222";

    #[test]
    fn a_slug_is_a_name_for_a_folder_and_leads_nowhere_else() {
        for (name, expected) in [
            ("Guest checkout", "guest-checkout"),
            ("  ../../etc/passwd ", "etc-passwd"),
            ("Größe 2.0!", "größe-2-0"),
        ] {
            assert_eq!(slug(name).unwrap(), expected);
        }
        assert!(slug("/../").is_err());
    }

    #[test]
    fn what_a_repository_brings_along_is_neither_run_nor_overwritten() {
        let project = tempfile::tempdir().unwrap();
        let mut document = PrdDocument::create(project.path(), "x").unwrap();
        let transcript = project.path().join("t.jsonl");
        fs::write(&transcript, "{}").unwrap();
        let option = "--dangerously-skip-permissions";
        let worked = serde_json::json!({"session_id": option, "transcript_path": transcript});
        let record = serde_json::json!({"name": "x", "sessions": [worked]});
        fs::write(document.record_file(), record.to_string()).unwrap();
        let found = PrdDocument::find(project.path(), None).unwrap();
        assert_eq!(found.resumable(), None);

        let row = SessionRow {
            session_id: FIRST.to_owned(),
            ..SessionRow::default()
        };
        fs::write(document.record_file(), "<<<<<<< ours").unwrap();
        document.began(&row);
        assert_eq!(
            fs::read_to_string(document.record_file()).unwrap(),
            "<<<<<<< ours"
        );
        let elsewhere = project.path().join("elsewhere");
        fs::write(&elsewhere, "{}").unwrap();
        fs::remove_file(document.record_file()).unwrap();
        std::os::unix::fs::symlink(&elsewhere, document.record_file()).unwrap();
        document.began(&row);
        assert_eq!(fs::read_to_string(&elsewhere).unwrap(), "{}");
        std::os::unix::fs::symlink(&elsewhere, document.file()).unwrap();
        assert_eq!(document.text(), None);
    }

    #[test]
    fn every_session_that_worked_on_it_is_recorded() {
        let project = tempfile::tempdir().unwrap();
        let mut document = PrdDocument::create(project.path(), "Guest checkout").unwrap();
        assert!(PrdDocument::create(project.path(), "guest CHECKOUT").is_err());
        let transcript = project.path().join("t.jsonl");
        let row = |id: &str| SessionRow {
            session_id: id.to_owned(),
            transcript_path: Some(transcript.to_string_lossy().into_owned()),
            ..SessionRow::default()
        };
        document.began(&row(FIRST));
        document.ended(FIRST, 1_000);
        document.began(&row(SECOND));
        let found = PrdDocument::find(project.path(), Some("guest checkout")).unwrap();
        let [first, second] = &found.record.sessions[..] else {
            panic!("{found:?}")
        };
        assert_eq!(first.ended_at.as_deref(), Some("1970-01-01T00:00:01.000Z"));
        assert_eq!((&*second.session_id, &second.ended_at), (SECOND, &None));
        assert_eq!(found.resumable(), None, "its transcript is gone");
        fs::write(&transcript, "{}").unwrap();
        assert_eq!(found.resumable(), Some(SECOND));

        assert!(!found.instructions_with_text().contains("so far"));
        fs::write(found.file(), "# Checkout\n").unwrap();
        assert!(
            found
                .instructions_with_text()
                .ends_with("so far:\n\n# Checkout\n")
        );
    }
}
