//! What a tool call would do: the acts of a Bash command, and the paths that a call touches.

use std::path::PathBuf;

use serde::Serialize;

/// Touches of one call that are kept. What is past them counts as unread.
pub const TOUCHES: usize = 8192;

/// What one tool call would do, as far as its input tells.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Call {
    /// The programs that a Bash command starts, in order. Empty for other tools.
    pub acts: Vec<Act>,
    /// Every path that the call touches, those of its acts included.
    pub touches: Vec<Touch>,
    /// Why parts of the call could not be read: too deep, too long, not shell. Empty if it was read whole.
    pub unread: Vec<String>,
    /// The files that a Bash command writes with known content, once for each time.
    #[serde(skip)]
    pub written: Vec<(String, Content)>,
}

/// What a file is given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    Text(String),
    /// What stands in other files, which the command reads.
    Copy,
}

/// One program that a command starts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Act {
    /// Its name without the folder, after wrappers such as `sudo` and `xargs`: `rm`. Empty if not known.
    pub program: String,
    /// What follows the name. `git -C x push` and an alias are brought to `push …`.
    pub args: Vec<Word>,
    /// The folder it runs in, after `cd`. None if that is not known.
    pub cwd: Option<PathBuf>,
    /// The variables that are set on the command, or exported before it: `RAILS_ENV=test`. `-u NAME` is one
    /// that is taken out, `-i` stands for all that were there before.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<String>,
    /// What it reads from a pipe or a here-document.
    pub fed: Fed,
    /// It runs through `sudo` or the like.
    pub elevated: bool,
    /// It runs on another machine or in a container: its paths are not ours.
    pub remote: bool,
    /// The wrappers it was found in, outermost first: `bash -c`, `xargs`, `find -exec`, `python -c`.
    pub via: Vec<String>,
}

/// One word of a command.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Word {
    /// As the program gets it. What is not known stands as it is written: `$DIR/x`.
    pub text: String,
    /// A part of it is not known before the command runs.
    pub opaque: bool,
}

/// What a program reads on its standard input.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Fed {
    #[default]
    Nothing,
    /// A text that was read too: what a shell does with it is in the acts.
    Text,
    /// What a network program prints.
    Network,
    /// Something that cannot be known.
    Opaque,
}

/// A path and what is done with it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Touch {
    /// Absolute, with `~`, `.` and `..` resolved. As it is written where a part is not known.
    pub path: String,
    /// The same with symlinks followed, where that differs and could be found in time.
    pub real: Option<String>,
    pub access: Access,
    /// With everything below it: `rm -r`, `chmod -R`.
    pub recursive: bool,
    /// A part of the path is not known, or it could not be resolved in time.
    pub opaque: bool,
    /// The index of the act that does it; none for other tools.
    pub act: Option<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Access {
    Read,
    Write,
    Delete,
    List,
}
