//! `becket hooks profile`: measures the run times of this project's hooks.

use std::io::{IsTerminal, Write};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Result;
use becket_engine::hooks::Hook;

use crate::hook_trial::report::{self, Profile as Measured};
use crate::hook_trial::{TrialResult, TrialSetup};
use crate::ui::style::Look;
use crate::ui::text::one_line;
use crate::world::World;

/// The number of characters of the progress bar.
const BAR_WIDTH: usize = 24;

/// Run this project's hooks a few times and show how long they take
#[derive(Debug, clap::Args)]
pub struct HooksProfile {
    /// Only this hook: its name, or a part that only it has (default: all that are on)
    #[arg(value_name = "NAME")]
    hook: Option<String>,
    /// The number of runs of each hook
    #[arg(short = 'n', value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    times: u32,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl HooksProfile {
    pub fn run(self, world: &World) -> Result<ExitCode> {
        let bench = TrialSetup::new(world)?;
        let hooks: Vec<Arc<Hook>> = match &self.hook {
            Some(typed) => {
                let hook = bench.named(typed)?;
                bench.refuse_untrusted(hook)?;
                vec![Arc::clone(hook)]
            }
            None => {
                let on = bench.hooks.iter().filter(|hook| hook.off.is_none());
                on.cloned().collect()
            }
        };
        let mut bar = ProgressBar::new(hooks.len() * self.times as usize);
        let mut measured = Vec::new();
        for hook in &hooks {
            let one = measure(&bench, hook, self.times, &mut bar)?;
            let Some(one) = one else {
                bar.clear();
                return Ok(ExitCode::FAILURE);
            };
            measured.push(one);
        }
        bar.clear();
        if self.json {
            println!("{}", crate::ui::text::json(&measured)?);
        } else if measured.is_empty() {
            println!(
                "No hook of this project is on: `becket hooks` lists them, `becket hooks adopt` takes over those of Claude Code's settings files."
            );
        } else {
            anstream::print!("{}", report::profile(&measured, &Look::of_stdout()));
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Runs a hook several times. Returns none if the user cancelled.
fn measure(
    bench: &TrialSetup<'_>,
    hook: &Hook,
    times: u32,
    bar: &mut ProgressBar,
) -> Result<Option<Measured>> {
    if hook.untrusted {
        bar.step(&hook.name, times as usize);
        let note = "not trusted: becket trust".to_owned();
        return Ok(Some(Measured::none(&hook.name, note)));
    }
    let Some(sample) = bench.sample_for(hook)? else {
        bar.step(&hook.name, times as usize);
        let note = "no recorded event and no sample event fits it".to_owned();
        return Ok(Some(Measured::none(&hook.name, note)));
    };
    let mut trials: Vec<TrialResult> = Vec::new();
    for _ in 0..times {
        bar.show(&hook.name);
        let tried = bench.try_on(hook, &sample)?;
        if tried.was_cancelled() {
            return Ok(None);
        }
        trials.push(tried);
        bar.step(&hook.name, 1);
    }
    Ok(Some(Measured::new(&hook.name, &sample, &trials)))
}

/// A progress bar, shown on a terminal only.
#[derive(Debug)]
struct ProgressBar {
    done: usize,
    all: usize,
    is_shown: bool,
}

impl ProgressBar {
    fn new(all: usize) -> Self {
        Self {
            done: 0,
            all,
            is_shown: std::io::stderr().is_terminal(),
        }
    }

    fn step(&mut self, hook: &str, steps: usize) {
        self.done += steps;
        self.show(hook);
    }

    fn show(&self, hook: &str) {
        if self.is_shown {
            // A closed terminal is no reason to stop measuring.
            let _ = write!(std::io::stderr(), "\r\x1b[K{}", self.line(hook));
        }
    }

    fn line(&self, hook: &str) -> String {
        let filled = self.done * BAR_WIDTH / self.all.max(1);
        let bar = format!("{}{}", "#".repeat(filled), "-".repeat(BAR_WIDTH - filled));
        let hook: String = one_line(hook).chars().take(40).collect();
        format!("[{bar}] {}/{} {hook}", self.done, self.all)
    }

    fn clear(&self) {
        if self.is_shown {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}
