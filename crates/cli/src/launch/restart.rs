//! Whether Claude Code is started again after its end. Pure: values in, a decision out.

use std::time::{Duration, Instant};

use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};

use super::child::Exit;

/// At most so many restarts within this time.
pub const MOST: usize = 5;
const WITHIN: Duration = Duration::from_secs(600);

/// What `--restart` asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    Never,
    AfterDeath,
    AfterDeathOrLimit,
}

/// How one Claude Code ended.
#[derive(Debug, Clone)]
pub struct Ending {
    pub exit: Exit,
    /// There is a session to go on with.
    pub has_session: bool,
    /// What SessionEnd said.
    pub reason: Option<String>,
    /// The launcher was told to end.
    pub told_to_end: bool,
    /// When the rate limit that the last turn ran into ends: milliseconds since 1970.
    pub limit: Option<i64>,
    /// The launcher ended it, to go on after the limit.
    pub limit_over: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next {
    End,
    /// It died too often.
    GiveUp,
    Again {
        nth: usize,
        after: Duration,
        /// The turn was ended by a limit, which ends then: it is to be gone on with.
        limit: Option<i64>,
    },
}

/// The restarts so far.
#[derive(Debug, Default)]
pub struct Restarts(Vec<Instant>);

impl Restarts {
    pub fn next(&mut self, policy: Policy, ending: &Ending, now: Instant) -> Next {
        let own = ending.is_the_users_own() && !ending.limit_over;
        let unwanted = ending.limit.is_some() && policy == Policy::AfterDeath;
        // What ends at once with an error of its own is not worth another try.
        let begun = ending.has_session || matches!(ending.exit, Exit::Signal(_));
        if policy == Policy::Never || !begun || own || unwanted {
            return Next::End;
        }
        self.0
            .retain(|at| now.saturating_duration_since(*at) < WITHIN);
        if self.0.len() >= MOST {
            return Next::GiveUp;
        }
        let after = Duration::from_secs(1 << self.0.len());
        self.0.push(now);
        Next::Again {
            nth: self.0.len(),
            after,
            limit: ending.limit.or(ending.limit_over.then_some(0)),
        }
    }
}

impl Ending {
    /// `/exit`, Ctrl-C, a closed terminal, or a plain `kill`: nothing unexpected.
    fn is_the_users_own(&self) -> bool {
        let left = matches!(self.reason.as_deref(), Some("prompt_input_exit" | "logout"));
        left || self.told_to_end
            || match self.exit {
                Exit::Code(code) => matches!(code, 0 | 129 | 130 | 131 | 143),
                Exit::Signal(signal) => [SIGINT, SIGQUIT, SIGTERM, SIGHUP].contains(&signal),
            }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ON: Policy = Policy::AfterDeathOrLimit;

    fn killed() -> Ending {
        Ending {
            exit: Exit::Signal(9),
            has_session: true,
            reason: None,
            told_to_end: false,
            limit: None,
            limit_over: false,
        }
    }

    #[test]
    fn what_the_user_ends_stays_ended() {
        let now = Instant::now();
        let mut restarts = Restarts::default();
        let exit = |exit| Ending { exit, ..killed() };
        let reason = Some("prompt_input_exit".to_owned());
        for ending in [
            exit(Exit::Code(0)),
            exit(Exit::Code(130)),
            exit(Exit::Signal(SIGINT)),
            exit(Exit::Signal(SIGHUP)),
            exit(Exit::Signal(SIGTERM)),
            Ending {
                reason,
                ..exit(Exit::Code(1))
            },
            Ending {
                told_to_end: true,
                ..killed()
            },
            Ending {
                has_session: false,
                ..exit(Exit::Code(1))
            },
        ] {
            assert_eq!(restarts.next(ON, &ending, now), Next::End, "{ending:?}");
        }
        assert_eq!(restarts.next(Policy::Never, &killed(), now), Next::End);
    }

    #[test]
    fn a_death_is_answered_five_times_in_ten_minutes_each_later_than_the_last() {
        let mut restarts = Restarts::default();
        let began = Instant::now();
        let mut at = |seconds| restarts.next(ON, &killed(), began + Duration::from_secs(seconds));
        for (nth, seconds) in (1..).zip([1, 2, 4, 8, 16]) {
            let after = Duration::from_secs(seconds);
            let again = Next::Again {
                nth,
                after,
                limit: None,
            };
            assert_eq!(at(60 * nth as u64), again);
        }
        assert_eq!(at(599), Next::GiveUp);
        // The first one was ten minutes ago.
        assert!(matches!(at(661), Next::Again { nth: 5, .. }));
    }

    #[test]
    fn a_limit_is_waited_for_unless_the_user_left_or_does_not_want_it() {
        let now = Instant::now();
        let mut restarts = Restarts::default();
        let limited = |exit| Ending {
            exit,
            limit: Some(7),
            ..killed()
        };
        let failed = limited(Exit::Code(1));
        let limit_of = |next| match next {
            Next::Again { limit, .. } => limit,
            other => panic!("{other:?}"),
        };
        assert_eq!(limit_of(restarts.next(ON, &failed, now)), Some(7));
        let left = limited(Exit::Code(0));
        assert_eq!(restarts.next(ON, &left, now), Next::End);
        let next = restarts.next(Policy::AfterDeath, &failed, now);
        assert_eq!(next, Next::End);
        let over = Ending {
            limit_over: true,
            limit: None,
            ..limited(Exit::Signal(SIGTERM))
        };
        assert_eq!(limit_of(restarts.next(ON, &over, now)), Some(0));
    }
}
