//! What stands in a command file. What a person types after the command is put into it as text, so
//! it must not reach the shell as anything but text: it comes in a here-document that ends at a line
//! which nobody can guess.

use std::fmt::Write;
use std::hash::{BuildHasher, RandomState};

use becket_wire::place::fnv1a;

use crate::settings::Scope;
use crate::world::World;

/// The files of the plugin, which ours are made of.
pub const TEMPLATES: [(&str, &str); 3] = [
    (
        "disable.md",
        include_str!("../../../../plugin/commands/hook/disable.md"),
    ),
    (
        "enable.md",
        include_str!("../../../../plugin/commands/hook/enable.md"),
    ),
    (
        "status.md",
        include_str!("../../../../plugin/commands/hook/status.md"),
    ),
];

/// The last line of the here-document in the plugin's files.
pub const PLUGINS_END: &str = "END_OF_ARGUMENTS_8c1f0d5e7ab94263";

const OPENING: &str = "---\n";
const MARK: &str =
    "# Written by `becket init`; `becket uninit` takes it away, unless it was changed: ";

/// How becket is called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    pub program: String,
    pub home: Option<String>,
}

impl Call {
    /// By its path and with its home, as the hooks are. What a project shares names neither, and nor
    /// does a path that Claude Code's rules could not hold.
    pub fn of(world: &World, scope: Scope) -> Self {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+".contains(c);
        let plain = |path: std::path::PathBuf| {
            let path = path.into_os_string().into_string().ok();
            path.filter(|path| scope != Scope::Project && path.chars().all(is_plain))
        };
        let program = plain(world.programs.join("becket"));
        Self {
            program: program.unwrap_or_else(|| "becket".to_owned()),
            home: plain(world.place.home().to_path_buf()),
        }
    }
}

/// What differs between two files that we wrote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// The last line of the here-document.
    pub end: String,
    /// So many folders were made for it.
    pub made: usize,
}

/// An end for a here-document that nobody has seen.
pub fn end() -> String {
    let random = || RandomState::new().hash_one(0);
    format!("END_OF_ARGUMENTS_{:016x}{:016x}", random(), random())
}

impl Written {
    pub fn render(&self, template: &str, call: &Call) -> String {
        let home = call.home.as_ref();
        let home = home.map_or_else(String::new, |home| format!(" --home {home}"));
        let text = template
            .replace(PLUGINS_END, &self.end)
            .replace("(becket ", &format!("({} ", call.program))
            .replace("\nbecket ", &format!("\n{} ", call.program))
            .replace(" --slash", &format!("{home} --slash"));
        let body = text.strip_prefix(OPENING).unwrap_or(&text);
        let made = self.made;
        format!("{OPENING}{MARK}{made}-{:016x}\n{body}", hash(made, body))
    }

    /// What a file of ours says of itself. None if a person wrote or changed it.
    pub fn read(text: &str) -> Option<Self> {
        let (mark, body) = text
            .strip_prefix(OPENING)?
            .strip_prefix(MARK)?
            .split_once('\n')?;
        let (made, hash_said) = mark.split_once('-')?;
        let made = made.parse().ok()?;
        let mut said = String::new();
        write!(said, "{:016x}", hash(made, body)).ok()?;
        let (_, end) = body.split_once("<<'")?;
        let (end, _) = end.split_once('\'')?;
        let end = end.to_owned();
        (hash_said == said).then_some(Self { end, made })
    }
}

fn hash(made: usize, body: &str) -> u64 {
    fnv1a(format!("{made}\n{body}").as_bytes())
}
