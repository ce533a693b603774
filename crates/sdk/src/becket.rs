//! becket before the callbacks: the same judgement as over a command hook.
//!
//! Each event goes through `becket-hook` itself, so that waiting for named hooks, standalone and a slow
//! daemon have one implementation. Measured with 2.1.325: the `input` of a callback has the bytes of the
//! command hook's stdin, but for the newline at its end. With that newline becket's rule for double
//! registrations holds, and a machine where becket is registered as well runs its named hooks once.

mod gate;
mod hook_process;
mod verdict;

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use becket_wire::event::EventName;
pub(crate) use gate::Gate;
pub(crate) use hook_process::BecketHook;

use crate::hooks::registry::{BECKET_ID, Registry};
use crate::hooks::{Hook, Matcher, OnFailure};
use crate::options::Options;
use crate::process::find_on_path;
use crate::{Builder, Error};

/// Where becket is.
#[derive(Debug, Default)]
pub(crate) struct BecketOptions {
    program: Option<PathBuf>,
    home: Option<PathBuf>,
}

/// becket's guards and named hooks.
impl Builder {
    /// Runs becket's guards and named hooks before the callbacks, for every event that a callback
    /// can get. An event that becket refuses does not reach them; an input that becket rewrites reaches
    /// them as rewritten. The permission callback is the exception: Claude Code asks it and
    /// PermissionRequest hooks at the same time, and the first answer counts.
    ///
    /// `becket-hook` is looked for on the PATH. If becket is also registered with `becket init`, it
    /// notices, and runs its named hooks once. SessionStart, SessionEnd and Setup come only over
    /// `becket init`: Claude Code calls no callbacks for them. Nor can a callback hand on what a
    /// named hook adds to the instructions of a compaction.
    pub fn becket(mut self) -> Self {
        self.becket.get_or_insert_default();
        self
    }

    /// The same, with this `becket-hook`.
    pub fn becket_program(mut self, program: impl Into<PathBuf>) -> Self {
        self.becket.get_or_insert_default().program = Some(program.into());
        self
    }

    /// The same, for this becket home instead of `~/.becket`.
    pub fn becket_home(mut self, home: impl Into<PathBuf>) -> Self {
        self.becket.get_or_insert_default().home = Some(home.into());
        self
    }
}

impl BecketOptions {
    pub(crate) fn hook(self, options: &Options) -> Result<Arc<BecketHook>, Error> {
        let on_path = || {
            find_on_path(
                "becket-hook",
                options.environment.variable("PATH").as_deref(),
            )
        };
        let program = self.program.or_else(on_path).ok_or(Error::NoBecket)?;
        let home = self
            .home
            .map(|home| [OsString::from("--home"), home.into()]);
        let args = home.into_iter().flatten().collect();
        let environment = options.environment.clone();
        Ok(Arc::new(BecketHook::new(program, args, environment)))
    }
}

/// becket's own callbacks, one per event, under ids beside `hook_1` and the others.
pub(crate) fn register(registry: &mut Registry, becket: &Arc<BecketHook>) {
    registry.set_becket_wait(|event| match is_judged(event) {
        true => event.waits(),
        false => Duration::ZERO,
    });
    for event in EventName::ALL.into_iter().filter(is_judged) {
        let (of_callback, becket) = (event.clone(), Arc::clone(becket));
        let hook = Hook::erased(
            event.clone(),
            Matcher::Any,
            Arc::new(move |input, context| {
                let (event, becket) = (of_callback.clone(), Arc::clone(&becket));
                Box::pin(async move { becket.callback(&event, input, &context).await })
            }),
        );
        // As over a command hook: a becket that cannot be run lets Claude Code go on.
        let hook = hook.on_failure(OnFailure::Open);
        registry.add(format!("{BECKET_ID}{event}"), hook, Some(event.waits()));
    }
}

fn is_judged(event: &EventName) -> bool {
    let never = matches!(
        event,
        EventName::SessionStart | EventName::SessionEnd | EventName::Setup
    );
    event.is_registered() && !never
}
