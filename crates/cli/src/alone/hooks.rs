//! The named hooks of an event that no daemon has. The event is left before they run, and what came of
//! them after: whatever happens to this process in between, the event is not lost.

use std::io::{self, Write};
use std::process::{Command, Stdio};
use std::sync::mpsc;

use becket_daemon::store::spool::{self, Left, SpoolError};
use becket_engine::hooks::carry::{Kit, Plan};
use becket_engine::hooks::kept;
use becket_engine::judge::Verdict;
use becket_engine::run::Cancel;
use becket_wire::Output;
use becket_wire::run::RunRow;

use super::{Event, report};
use crate::leave;

impl Event<'_> {
    /// Runs the hooks, and gives what they and becket say together.
    pub(super) fn carry_out(&self, mut plan: Plan, verdict: Verdict, frame: Vec<u8>) -> Output {
        let behind: Vec<_> = plan.hooks.extract_if(.., |hook| hook.is_async).collect();
        let kept = self.leave(Left {
            held: true,
            ..self.left(None, Vec::new())
        });
        let mut runs = Vec::new();
        // Of what began that process tells: this one may end before it does.
        if !behind.is_empty()
            && let Err(error) = self.start_behind(&frame)
        {
            runs.extend(behind.iter().map(|hook| plan.went_behind(hook)));
            runs.iter_mut().for_each(|run| not_started(run, &error));
        }
        drop(frame);
        let kit = self.kit();
        let (verdict, ran) = self.run(plan, verdict, kit);
        runs.extend(ran);
        let output = verdict.output();
        // Whoever hung up heard nothing of it.
        let heard = !runs.iter().any(RunRow::was_cancelled);
        let left = self.left(heard.then_some((&verdict, &output)), runs);
        self.complete(kept, left);
        output
    }

    /// Says more of the event, if it could be left.
    fn complete(&self, kept: Result<(), SpoolError>, left: Left) {
        report(match kept {
            Ok(()) => spool::amend(self.place, self.envelope.id, &left),
            Err(full @ SpoolError::Full { .. }) => Err(full),
            // What was wrong may be over.
            Err(_) => self.leave(left),
        });
    }

    /// Runs what somebody waits for.
    fn run(&self, plan: Plan, verdict: Verdict, kit: Kit) -> (Verdict, Vec<RunRow>) {
        let begun: Vec<RunRow> = (plan.hooks.iter())
            .map(|hook| plan.went_behind(hook))
            .collect();
        let (own, grounds) = (verdict.clone(), self.grounds());
        let (tell, told) = mpsc::channel();
        let cancel = Cancel::new();
        let ending = cancel.clone();
        // Claude Code asks us to go when the time is up: nobody would end the hooks then.
        leave::when_asked(move || ending.cancel());
        // On a thread of its own: a hook that goes on in the background is not waited for. The next
        // daemon ends it by its file.
        std::thread::spawn(move || {
            let answered = |done| drop(tell.send(done));
            let judge = |payload: &[u8]| grounds.judge(payload);
            plan.carry_out(&kit, &cancel, own, judge, answered, |_| ());
        });
        let Ok(done) = told.recv() else {
            return (verdict, Vec::new());
        };
        let mut runs = done.runs;
        for run in begun {
            if runs.iter().all(|ended| ended.hook != run.hook) {
                runs.push(run);
            }
        }
        let id = self.envelope.id;
        let answer = kept::shorten(done.merged.answer, self.place, id, self.masker);
        (done.own.merged(answer, done.merged.by), runs)
    }

    fn kit(&self) -> Kit {
        let becket = std::env::current_exe().unwrap_or_else(|_| "becket".into());
        let home = self.place.home().to_path_buf();
        Kit {
            becket,
            home,
            environment: std::env::vars_os().collect(),
        }
    }

    /// The hooks that nobody waits for run in a process of their own: this one has to end.
    fn start_behind(&self, frame: &[u8]) -> io::Result<()> {
        let mut command = Command::new(self.kit().becket);
        command
            .args(["hook", "--alone", self.why, "--behind", "--home"])
            .arg(self.place.home())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let stdin = command.spawn()?.stdin;
        stdin.map_or(Ok(()), |mut stdin| stdin.write_all(frame))
    }

    /// That process: it tells that they begin, and the end of each.
    pub(super) fn run_behind(&self) {
        let Some(mut plan) = self.plan() else { return };
        plan.hooks.retain(|hook| hook.is_async);
        let silent = self.judge();
        let again = silent.clone();
        let tell = |runs| {
            let left = Left::of_runs(kept::masked(runs, self.masker));
            report(spool::amend(self.place, self.envelope.id, &left));
        };
        tell(
            (plan.hooks.iter())
                .map(|hook| plan.went_behind(hook))
                .collect(),
        );
        plan.carry_out(
            &self.kit(),
            &Cancel::new(),
            silent,
            |_| again,
            |_| (),
            |run| tell(vec![run]),
        );
    }
}

fn not_started(run: &mut RunRow, error: &io::Error) {
    run.outcome = "not started".to_owned();
    run.note = Some(format!(
        "the process for hooks that nobody waits for: {error}"
    ));
}
