//! The presentation layer of all verbs: tables, styles, times, text.

pub mod style;
pub mod table;
pub mod text;
pub mod time;

use std::io::{self, BufRead, IsTerminal, Write};

/// Returns true if the user can be asked.
pub fn is_attended() -> bool {
    io::stdin().is_terminal() && io::stdout().is_terminal()
}

/// Asks the user. Returns the line that they typed.
pub fn ask(question: &str) -> io::Result<String> {
    let mut out = anstream::stdout();
    write!(out, "{question}")?;
    out.flush()?;
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line)?;
    Ok(line)
}

/// Asks the user to agree.
pub fn agrees(question: &str) -> io::Result<bool> {
    let answer = ask(&format!("{question} [y/N] "))?;
    Ok(matches!(&*answer.trim().to_lowercase(), "y" | "yes"))
}
