//! The report of a bench: text for people, JSON for programs, Markdown for the docs.

use std::fmt::Write;

use serde_json::{Value, json};

use crate::args::BenchOptions;

#[derive(Debug, Clone)]
pub struct Table {
    pub title: String,
    pub columns: Vec<&'static str>,
    pub rows: Vec<Vec<String>>,
}

/// A figure and the bound that it has to meet.
#[derive(Debug, Clone)]
pub struct Bar {
    pub name: String,
    pub figure: f64,
    pub bound: Bound,
    /// A stricter bound that is not required.
    pub goal: Option<f64>,
}

#[derive(Debug, Clone, Copy)]
pub enum Bound {
    AtMost(f64),
    AtLeast(f64),
}

impl Bar {
    pub fn at_most(name: impl Into<String>, figure: f64, bound: f64, goal: Option<f64>) -> Self {
        Self {
            name: name.into(),
            figure,
            bound: Bound::AtMost(bound),
            goal,
        }
    }

    pub fn at_least(name: impl Into<String>, figure: f64, bound: f64, goal: Option<f64>) -> Self {
        Self {
            name: name.into(),
            figure,
            bound: Bound::AtLeast(bound),
            goal,
        }
    }

    pub fn met(&self) -> bool {
        self.reaches(match self.bound {
            Bound::AtMost(bound) | Bound::AtLeast(bound) => bound,
        })
    }

    fn reaches(&self, bound: f64) -> bool {
        match self.bound {
            Bound::AtMost(_) => self.figure <= bound,
            Bound::AtLeast(_) => self.figure >= bound,
        }
    }

    fn row(&self) -> Vec<String> {
        let (sign, bound) = match self.bound {
            Bound::AtMost(bound) => ("≤", bound),
            Bound::AtLeast(bound) => ("≥", bound),
        };
        let yes = |met| if met { "yes" } else { "NO" };
        vec![
            self.name.clone(),
            number(self.figure),
            format!("{sign} {}", number(bound)),
            yes(self.met()).to_owned(),
            self.goal.map_or_else(String::new, |goal| {
                format!("{sign} {}: {}", number(goal), yes(self.reaches(goal)))
            }),
        ]
    }
}

#[derive(Debug, Clone)]
pub struct Report {
    bench: &'static str,
    command_line: String,
    pub tables: Vec<Table>,
    pub bars: Vec<Bar>,
    /// Facts that a reader must know, such as skipped rivals.
    pub notes: Vec<String>,
    /// All figures, for programs.
    pub figures: Value,
}

impl Report {
    pub fn new(options: &BenchOptions) -> Self {
        Self {
            bench: options.name(),
            command_line: options.command_line.clone(),
            tables: Vec::new(),
            bars: Vec::new(),
            notes: Vec::new(),
            figures: Value::Null,
        }
    }

    pub fn passed(&self) -> bool {
        self.bars.iter().all(Bar::met)
    }

    fn all_tables(&self) -> Vec<Table> {
        let mut tables = self.tables.clone();
        if !self.bars.is_empty() {
            tables.push(Table {
                title: "Bars".to_owned(),
                columns: vec!["what", "figure", "bar", "met", "goal"],
                rows: self.bars.iter().map(Bar::row).collect(),
            });
        }
        tables
    }

    pub fn json(&self) -> Value {
        let bars = self.bars.iter().map(|bar| {
            let (kind, bound) = match bar.bound {
                Bound::AtMost(bound) => ("at_most", bound),
                Bound::AtLeast(bound) => ("at_least", bound),
            };
            json!({
                "what": bar.name, "figure": bar.figure, kind: bound, "goal": bar.goal,
                "met": bar.met(),
            })
        });
        json!({
            "bench": self.bench,
            "command": self.command_line,
            "machine": machine(),
            "figures": self.figures,
            "bars": bars.collect::<Vec<_>>(),
            "notes": self.notes,
        })
    }

    pub fn text(&self) -> String {
        let mut out = format!("{} · {}\n", self.command_line, machine());
        for table in self.all_tables() {
            out.push('\n');
            out.push_str(&table.title);
            out.push('\n');
            let widths = table.widths();
            for row in table.lines() {
                let cells = row
                    .iter()
                    .zip(&widths)
                    .enumerate()
                    .map(|(at, (cell, &width))| {
                        if at == 0 {
                            format!("{cell:<width$}")
                        } else {
                            format!("{cell:>width$}")
                        }
                    });
                let line = cells.collect::<Vec<_>>().join("  ");
                out.push_str(line.trim_end());
                out.push('\n');
            }
        }
        for note in &self.notes {
            let _ = writeln!(out, "\nnote: {note}");
        }
        out
    }

    pub fn markdown(&self) -> String {
        let mut out = format!("`{}` · {}\n", self.command_line, machine());
        for table in self.all_tables() {
            let _ = write!(out, "\n**{}**\n\n", table.title);
            for (at, row) in table.lines().iter().enumerate() {
                let _ = writeln!(out, "| {} |", row.join(" | "));
                if at == 0 {
                    let rule = "|---:".repeat(row.len() - 1);
                    let _ = writeln!(out, "|---{rule}|");
                }
            }
        }
        for note in &self.notes {
            let _ = write!(out, "\nNote: {note}\n");
        }
        out
    }
}

impl Table {
    fn lines(&self) -> Vec<Vec<String>> {
        let head = self.columns.iter().map(ToString::to_string).collect();
        std::iter::once(head).chain(self.rows.clone()).collect()
    }

    fn widths(&self) -> Vec<usize> {
        let lines = self.lines();
        (0..self.columns.len())
            .map(|column| {
                let cells = lines.iter().filter_map(|row| row.get(column));
                cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
            })
            .collect()
    }
}

/// Formats a figure for people: with a comma between thousands, or with two decimals if it is small.
pub fn number(value: f64) -> String {
    if value.abs() < 10.0 && value.fract() != 0.0 {
        return format!("{value:.2}");
    }
    let digits = format!("{value:.0}");
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) && out != "-" {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Describes the machine: cores, processor, system.
fn machine() -> String {
    let cpu = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpu
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(": "))
        .map_or("unknown processor", |(_, model)| model);
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    format!(
        "{} cores, {model}, {} {}",
        crate::cpu_load::cores(),
        std::env::consts::OS,
        kernel.trim()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_is_met_on_its_own_side() {
        assert!(Bar::at_most("a", 0.9, 0.9, None).met());
        assert!(!Bar::at_most("a", 0.91, 0.9, None).met());
        assert!(Bar::at_least("a", 20_000.0, 20_000.0, None).met());
        assert!(!Bar::at_least("a", 19_999.0, 20_000.0, None).met());
        let row = Bar::at_most("a", 0.8, 0.9, Some(0.75)).row();
        assert_eq!(row[3..], ["yes", "≤ 0.75: NO"]);
    }

    #[test]
    fn numbers_are_easy_to_read() {
        assert_eq!(number(0.754), "0.75");
        assert_eq!(number(333.4), "333");
        assert_eq!(number(17_671.0), "17,671");
        assert_eq!(number(1_000_000.0), "1,000,000");
        assert_eq!(number(-1234.0), "-1,234");
    }
}
