//! Reads the status line's JSON leniently: a field that is missing or odd is unknown, no error.

use becket_wire::session::Figures;
use serde_json::Value;
use thiserror::Error;

/// The JSON is some two thousand bytes; more than this is not read.
pub const MAX_PAYLOAD: usize = 256 << 10;

/// What the status line says of a session.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Reading {
    pub session_id: Option<String>,
    /// The name of the project's folder.
    pub project: Option<String>,
    pub transcript_path: Option<String>,
    pub cwd: Option<String>,
    pub figures: Figures,
}

/// Why nothing could be read.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Unread {
    #[error("status line: nothing came")]
    Empty,
    #[error("status line: {0} bytes came, too many")]
    TooLong(usize),
    #[error("status line: what came is no JSON")]
    NotJson,
}

/// Reads what Claude Code gives its status line.
pub fn figures(payload: &[u8]) -> Result<Reading, Unread> {
    if payload.len() > MAX_PAYLOAD {
        return Err(Unread::TooLong(payload.len()));
    }
    if payload.trim_ascii().is_empty() {
        return Err(Unread::Empty);
    }
    let Ok(said @ Value::Object(_)) = serde_json::from_slice(payload) else {
        return Err(Unread::NotJson);
    };
    let text = |path| text(&said, path);
    let folder = text("/workspace/project_dir")
        .or_else(|| text("/workspace/current_dir"))
        .or_else(|| text("/cwd"));
    Ok(Reading {
        session_id: text("/session_id"),
        project: folder.as_deref().and_then(name),
        transcript_path: text("/transcript_path"),
        cwd: text("/workspace/current_dir").or_else(|| text("/cwd")),
        figures: Figures {
            context_pct: amount(&said, "/context_window/used_percentage"),
            context_tokens: context_tokens(&said),
            context_size: count(&said, "/context_window/context_window_size"),
            cost_usd: amount(&said, "/cost/total_cost_usd"),
            lines_added: count(&said, "/cost/total_lines_added"),
            lines_removed: count(&said, "/cost/total_lines_removed"),
            duration_ms: count(&said, "/cost/total_duration_ms"),
            api_duration_ms: count(&said, "/cost/total_api_duration_ms"),
            model_id: text("/model/id"),
            model_name: text("/model/display_name"),
            from_transcript: false,
        },
    })
}

/// What the last request held. The totals beside it have counted other things in other versions.
fn context_tokens(said: &Value) -> Option<u64> {
    let usage = said.pointer("/context_window/current_usage")?;
    let parts = [
        "/input_tokens",
        "/cache_creation_input_tokens",
        "/cache_read_input_tokens",
    ];
    let known: Vec<u64> = parts.iter().filter_map(|part| count(usage, part)).collect();
    (!known.is_empty()).then(|| {
        known
            .iter()
            .fold(0, |sum: u64, part| sum.saturating_add(*part))
    })
}

fn text(said: &Value, path: &str) -> Option<String> {
    let text = said.pointer(path)?.as_str()?;
    (!text.is_empty()).then(|| text.to_owned())
}

/// A figure that can be: neither negative nor beyond all bounds.
fn amount(said: &Value, path: &str) -> Option<f64> {
    let amount = said.pointer(path)?.as_f64()?;
    (0.0..=1e9).contains(&amount).then_some(amount)
}

fn count(said: &Value, path: &str) -> Option<u64> {
    let number = said.pointer(path)?;
    // Some figures come with a fraction where a whole number is meant.
    let whole = || amount(said, path).map(|amount| amount as u64);
    number.as_u64().or_else(whole)
}

/// The last part of a path.
fn name(folder: &str) -> Option<String> {
    let last = folder.trim_end_matches('/').rsplit('/').next()?;
    Some(if last.is_empty() { folder } else { last }.to_owned())
}
