//! The arguments of the shim. `becket up` writes them into settings.json, and the shim reads them.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use crate::frame::FrameKind;
use crate::rpc::CARRIED_BY_LINE;

/// The registration of an event. Arguments beat the environment: a project's settings can set variables for our
/// hook, and must not be able to redirect it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Registration {
    pub event: Option<String>,
    /// The place of the registration: settings, plugin, run, sdk.
    pub from: Option<String>,
    pub home: Option<PathBuf>,
    /// True for the status line, not an event.
    pub statusline: bool,
    /// True if the user has a status line of their own, which is shown beside becket's.
    pub beside: bool,
    /// True if the refresh interval is the user's own, so their program runs each time.
    pub own_refresh: bool,
    /// True to print the version.
    pub version: bool,
    /// True to print the help.
    pub help: bool,
}

impl Registration {
    /// Reads the arguments. It ignores unknown ones: a newer registration may have more.
    pub fn read(mut args: impl Iterator<Item = OsString>) -> Self {
        let mut registration = Self::default();
        while let Some(arg) = args.next() {
            match arg.to_str() {
                Some("--event") => registration.event = args.next().as_deref().map(text_of),
                Some("--from") => registration.from = args.next().as_deref().map(text_of),
                Some("--home") => registration.home = args.next().map(PathBuf::from),
                Some("--statusline") => registration.statusline = true,
                Some("--beside") => registration.beside = true,
                Some("--own-refresh") => registration.own_refresh = true,
                Some("--version" | "-V") => registration.version = true,
                Some("--help" | "-h") => registration.help = true,
                _ => {}
            }
        }
        registration
    }

    /// Returns the kind of frame that a call sends.
    pub fn kind(&self) -> FrameKind {
        if self.statusline {
            FrameKind::STATUS_LINE
        } else {
            FrameKind::EVENT
        }
    }

    /// Returns the variables that its envelope carries besides those of all envelopes.
    pub fn carries(&self) -> &'static [&'static str] {
        if self.statusline {
            &CARRIED_BY_LINE
        } else {
            &[]
        }
    }
}

fn text_of(argument: &OsStr) -> String {
    argument.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_it_knows_and_passes_over_the_rest() {
        let args = [
            "--new", "--event", "Stop", "x", "--from", "run", "--home", "/h", "--event",
        ];
        let read = Registration::read(args[..8].iter().map(OsString::from));
        let expected = Registration {
            event: Some("Stop".into()),
            from: Some("run".into()),
            home: Some("/h".into()),
            ..Registration::default()
        };
        assert_eq!(read, expected);
        assert_eq!(
            Registration::read(args.iter().map(OsString::from)).event,
            None
        );
        let line = ["--statusline", "--beside", "--home", "/h", "--own-refresh"];
        let read = Registration::read(line[..4].iter().map(OsString::from));
        assert!(read.statusline && read.beside && !read.version, "{read:?}");
        assert!(
            !read.own_refresh && Registration::read(line.iter().map(OsString::from)).own_refresh
        );
        for (arg, version, help) in [
            ("--version", true, false),
            ("-V", true, false),
            ("--help", false, true),
            ("-h", false, true),
        ] {
            let read = Registration::read(std::iter::once(arg.into()));
            assert_eq!((read.version, read.help), (version, help), "{arg}");
        }
        let read = Registration::read(["--event", "--help"].into_iter().map(OsString::from));
        assert!(!read.help, "that is the event's name");
    }
}
